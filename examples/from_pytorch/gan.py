"""Trains a GAN: two models, two optimizers, and each model in the other's loss."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
loader = [(3 + torch.randn(8, 2), torch.randn(8, 4)) for _ in range(30)]
torch.manual_seed(1)
generator = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
torch.manual_seed(2)
critic = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
generator_optimizer = torch.optim.AdamW(generator.parameters(), lr=1e-2)
critic_optimizer = torch.optim.AdamW(critic.parameters(), lr=1e-2)


def error(logits, is_real):
    return F.binary_cross_entropy_with_logits(logits, torch.full_like(logits, is_real))


for real, noise in loader:
    critic_optimizer.zero_grad()
    fake = generator(noise).detach()
    (error(critic(real), True) + error(critic(fake), False)).backward()
    critic_optimizer.step()

    generator_optimizer.zero_grad()
    error(critic(generator(noise)), True).backward()
    generator_optimizer.step()

trained = [*generator.parameters(), *critic.parameters()]
