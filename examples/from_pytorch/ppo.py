"""Trains by PPO: some epochs of minibatches over a rollout, until the policy changed enough."""

import torch
from torch import nn
from torch.distributions import Categorical


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.policy, self.value = nn.Linear(4, 16), nn.Linear(16, 3), nn.Linear(16, 1)

    def forward(self, observation):
        x = torch.tanh(self.body(observation))
        return Categorical(logits=self.policy(x)), self.value(x).squeeze(1)


torch.manual_seed(1)
model = ActorCritic()
torch.manual_seed(0)
observation, action = torch.randn(64, 4), torch.randint(3, (64,))
advantage, gain = torch.randn(64), torch.randn(64)
with torch.no_grad():
    old_log_prob = model(observation)[0].log_prob(action)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

for epoch in range(20):
    for rows in torch.randperm(64).split(16):
        policy, value = model(observation[rows])
        change = policy.log_prob(action[rows]) - old_log_prob[rows]
        ratio = change.exp()
        clipped = ratio.clamp(0.8, 1.2) * advantage[rows]
        policy_loss = -torch.minimum(ratio * advantage[rows], clipped).mean()
        value_loss = (value - gain[rows]).square().mean()
        optimizer.zero_grad()
        (policy_loss + 0.5 * value_loss - 0.01 * policy.entropy().mean()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        kl = (ratio - 1 - change).mean().item()
    if kl >= 0.02:
        break

trained = [*model.parameters()]
