"""What the simulator was given when it returned NaN or infinity, kept on the device until it can be
written to a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

COLUMNS = {"state": 37, "target_prev": 12, "target": 12, "params": 9, "delay_steps": 1}


class NonfiniteRecord:
    """Latest offending input of each robot: a control step whose state, sensors or gradient was not
    finite. Fixed shapes and no host decision, so it works inside a CUDA graph."""

    def __init__(self, num_envs: int, device: str | torch.device) -> None:
        self.rows = torch.zeros(num_envs, sum(COLUMNS.values()), device=device)
        self.count = torch.zeros(num_envs, device=device)

    @torch.no_grad()
    def keep(self, bad: torch.Tensor, *inputs: torch.Tensor) -> None:
        """bad bool [N]; inputs in the order of COLUMNS, each [N, ...]."""
        rows = torch.cat([x.reshape(x.shape[0], -1).to(self.rows.dtype) for x in inputs], 1)
        self.rows.copy_(torch.where(bad[:, None], rows, self.rows))
        self.count += bad

    def dump(self, path: Path, first_env: int = 0) -> str | None:
        """Writes the robots seen since the last call to `path` (npz: env, count and COLUMNS) and
        returns a sentence about it; None when there was none. Waits for the device. `first_env` is
        added to the robots' numbers."""
        count = self.count.cpu().numpy()
        envs = np.flatnonzero(count)
        if len(envs) == 0:
            return None
        rows = self.rows.cpu().numpy()[envs]
        ends = np.cumsum(list(COLUMNS.values()))[:-1]
        parts = dict(zip(COLUMNS, np.split(rows, ends, axis=1), strict=True))
        np.savez(path, env=envs + first_env, count=count[envs], **parts)
        self.count.zero_()
        named = ", ".join(str(e + first_env) for e in envs[:5]) + (", ..." if len(envs) > 5 else "")
        return (
            f"not finite: {len(envs)} robots (number {named}) left out of the update; "
            f"what the simulator was given is in {path}"
        )
