"""ImageNet-A in the only split that is published, by RevisitingCIL and LAMDA-PILOT, as folders."""

from ovor.data.sources import Expected, Source, published_folders

SOURCE = Source(
    name="imagenet-a",
    places=("imagenet-a",),
    get="ImageNet-A as split by the authors of RevisitingCIL and LAMDA-PILOT, whose pages on "
    "GitHub link to it (the original, imagenet-a.tar of hendrycks/natural-adv-examples, has no "
    "split)",
    layout="imagenet-a/train/CLASS/*.jpg and imagenet-a/test/CLASS/*.jpg",
    expected=Expected(classes=200, train=5981, test=1519),
    read=published_folders,
)
