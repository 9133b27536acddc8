import time, torch, torch.nn.functional as F, resource
from contextlib import nullcontext
from ovor.backbones.vit import VisionTransformer, Architecture
from ovor.learners import build_learner
torch.manual_seed(0)
arch=Architecture(768,12,12,3072,16,3,(14,14))
vit=VisionTransformer(arch)
for p in vit.parameters():
    p.requires_grad_(False)
    if p.dim()>1: torch.nn.init.normal_(p,std=0.02)
L=build_learner("oneprompt",{},vit,nullcontext)
L.begin_task(20,(0,0))
B=16
x=torch.rand(B,3,224,224); y=torch.randint(0,20,(B,))
opt=torch.optim.Adam(L.learnable(),lr=1e-3)
def step():
    loss=L.loss(x,y); opt.zero_grad(); loss.backward(); opt.step()
def t(f,n=3):
    f(); r=[]
    for _ in range(n):
        s=time.perf_counter(); f(); r.append(time.perf_counter()-s)
    return min(r)
a=torch.rand(3152,768); w=torch.rand(768,3072)
tm=t(lambda:[a@w for _ in range(10)],5)/10
peak=2*3152*768*3072/tm
a2=torch.rand(4096,4096)
tm2=t(lambda:a2@a2,5)
print("peak GF",peak/1e9, 2*4096**3/tm2/1e9)
ts=t(step)
print("step",ts, "GF/s", 2*32.8e9*B/ts/1e9)
print("fwd", t(lambda:L.loss(x,y)))
with torch.no_grad(): 
    tf=t(lambda:L.loss(x,y)); print("fwd nograd",tf, 2*16.4e9*B/tf/1e9)
from torch.profiler import profile
with profile() as p: step()
print(p.key_averages().table(sort_by="self_cpu_time_total",row_limit=22,max_name_column_width=50))
