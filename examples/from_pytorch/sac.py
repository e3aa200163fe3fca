"""Trains by SAC: a critic with a target network, an actor and a temperature, three losses in each
step."""

import copy
import math

import torch
import torch.nn.functional as F
from torch import nn


class Actor(nn.Module):
    """A Gaussian that tanh has squashed into (-1, 1): gives actions and their log-probabilities."""

    def __init__(self):
        super().__init__()
        self.body, self.mean, self.log_std = nn.Linear(4, 16), nn.Linear(16, 2), nn.Linear(16, 2)

    def forward(self, observation, noise):
        x = torch.tanh(self.body(observation))
        log_std = torch.tanh(self.log_std(x))
        action = torch.tanh(self.mean(x) + log_std.exp() * noise)
        log_prob = -noise.square() / 2 - log_std - math.log(2 * math.pi) / 2
        return action, (log_prob - (1 - action.square() + 1e-6).log()).sum(1)


class Critic(nn.Module):
    """Two estimates of the gain of an action."""

    def __init__(self):
        super().__init__()
        self.body1, self.gain1 = nn.Linear(6, 16), nn.Linear(16, 1)
        self.body2, self.gain2 = nn.Linear(6, 16), nn.Linear(16, 1)

    def forward(self, observation, action):
        x = torch.cat([observation, action], 1)
        first = self.gain1(torch.relu(self.body1(x)))
        return first.squeeze(1), self.gain2(torch.relu(self.body2(x))).squeeze(1)


def transitions():
    observation, action, reward = torch.randn(32, 4), torch.rand(32, 2) * 2 - 1, torch.randn(32)
    next_observation, done = torch.randn(32, 4), (torch.rand(32) < 0.1).float()
    return observation, action, reward, next_observation, done, *torch.randn(2, 32, 2)


torch.manual_seed(0)
loader = [transitions() for _ in range(30)]
torch.manual_seed(1)
actor, critic = Actor(), Critic()
target = copy.deepcopy(critic)
log_alpha = nn.Parameter(torch.zeros(()))
actor_optimizer = torch.optim.Adam(actor.parameters(), lr=3e-3)
critic_optimizer = torch.optim.Adam(critic.parameters(), lr=3e-3)
temperature_optimizer = torch.optim.Adam([log_alpha], lr=3e-3)

for observation, action, reward, next_observation, done, noise, next_noise in loader:
    alpha = log_alpha.detach().exp()
    with torch.no_grad():
        next_action, next_log_prob = actor(next_observation, next_noise)
        gain = torch.minimum(*target(next_observation, next_action)) - alpha * next_log_prob
        goal = reward + 0.99 * (1 - done) * gain
    critic_loss = sum(F.mse_loss(estimate, goal) for estimate in critic(observation, action))
    critic_optimizer.zero_grad()
    critic_loss.backward()
    critic_optimizer.step()

    critic.requires_grad_(False)
    new_action, log_prob = actor(observation, noise)
    gain = torch.minimum(*critic(observation, new_action))
    actor_optimizer.zero_grad()
    (alpha * log_prob - gain).mean().backward()
    actor_optimizer.step()
    critic.requires_grad_(True)

    temperature_optimizer.zero_grad()
    (-log_alpha * (log_prob.detach() - 2)).mean().backward()
    temperature_optimizer.step()

    with torch.no_grad():
        for slow, fast in zip(target.parameters(), critic.parameters()):
            slow.lerp_(fast, 0.05)

trained = [*actor.parameters(), *critic.parameters(), *target.parameters(), log_alpha]
