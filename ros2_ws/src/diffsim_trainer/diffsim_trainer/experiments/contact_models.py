"""Train in soft, hard and smoothed contact; return in the own model and in hard contact (Table 1).

The paper: 2231 soft in soft, 325 of it in hard, 2255 smoothed in hard; its reward is another, so
only the ratios compare.
"""

from __future__ import annotations

import numpy as np

from diffsim_trainer.experiments import output
from diffsim_trainer.experiments.task import ReturnMeter, Settings, trained_actor
from diffsim_trainer.physics import ContactModel

LAWS = (ContactModel.SOFT, ContactModel.HARD, ContactModel.SMOOTHED)


def run(settings: Settings) -> None:
    judged = settings.judging()
    rows: list[output.Row] = []
    meters: dict[ContactModel, ReturnMeter] = {}
    for law in LAWS:
        for seed in range(settings.seeds):
            actor, seconds = trained_actor(settings, law, seed)
            for other in {law, ContactModel.HARD}:
                if other not in meters:
                    meters[other] = ReturnMeter(judged, other, settings.device, actor)
            own, own_falls = meters[law].measure(actor)
            hard, hard_falls = meters[ContactModel.HARD].measure(actor)
            rows.append(
                {"trained": law.value, "seed": seed, "own": own, "hard": hard}
                | {"own_falls": own_falls, "hard_falls": hard_falls, "seconds": seconds}
            )
            print(output.format_table(rows[-1:]), flush=True)
    _report(settings, rows)


def _report(settings: Settings, rows: list[output.Row]) -> None:
    figure, axes = output.new_figure(1, 1, (6, 3.5))
    table: list[output.Row] = []
    for i, law in enumerate(LAWS):
        mine = [r for r in rows if r["trained"] == law.value]
        own, hard = (np.array([r[key] for r in mine]) for key in ("own", "hard"))
        for values, offset, alpha in ((own, -0.2, 0.45), (hard, 0.2, 1.0)):
            colour = output.COLOURS[law.value]
            axes[0, 0].bar(i + offset, values.mean(), 0.38, color=colour, alpha=alpha)
            axes[0, 0].plot(np.full(len(values), i + offset), values, "o", color="gray", ms=4)
        table.append(
            {"trained in": law.value, "seeds": len(mine)}
            | {"in its own": own.mean(), "+-": own.std(), "in hard": hard.mean(), "+- ": hard.std()}
            | {"kept": hard.sum() / own.sum(), "falls in hard": _mean(mine, "hard_falls")}
            | {"seconds": _mean(mine, "seconds")}
        )
    axes[0, 0].set_xticks(range(len(LAWS)), [law.value for law in LAWS])
    axes[0, 0].set_ylabel("return over 20 s\n(pale: own model, full: hard)")
    axes[0, 0].set_xlabel("contact model of the training; dots: seeds")
    output.save(settings.out, "contact_models", figure, rows, table)


def _mean(rows: list[output.Row], key: str) -> float:
    return float(np.mean([row[key] for row in rows]))
