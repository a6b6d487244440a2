"""Exchange between the four lanes of a robot: one lane of a CUDA warp per leg.

Lane l of a robot is thread 4 env + l, so four neighbours never leave a warp, and a shuffle by
exclusive or (1, 2 or 3) permutes them. Such a permutation is its own transpose, which makes every
adjoint here the same shuffle again. All functions must be reached by all lanes of a robot.
"""

from functools import cache
from types import SimpleNamespace

import warp as wp

from .spatial import build_spatial

_EXCHANGE = """
    auto out = x;
    for (unsigned k = 0; k < sizeof(x) / sizeof(REAL); ++k)
        ((REAL*)&out)[k] = __shfl_xor_sync(0xffffffffu, ((REAL*)&x)[k], mask);
    return out;
"""
_EXCHANGE_ADJOINT = """
    for (unsigned k = 0; k < sizeof(x) / sizeof(REAL); ++k)
        ((REAL*)&adj_x)[k] += __shfl_xor_sync(0xffffffffu, ((REAL*)&adj_ret)[k], mask);
"""
# the value is the same in all lanes; lane 0 alone gets the gradient of all
_SHARE = "return x;"
_SHARE_ADJOINT = """
    for (unsigned k = 0; k < sizeof(x) / sizeof(REAL); ++k) {
        REAL sum = ((REAL*)&adj_ret)[k];
        sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        sum += __shfl_xor_sync(0xffffffffu, sum, 2);
        if ((threadIdx.x & 3) == 0) ((REAL*)&adj_x)[k] += sum;
    }
"""


@cache
def build_lanes(real) -> SimpleNamespace:
    """Functions `exchange_*`, `sum_*` and `share_*` for `real`; CUDA only."""
    sp = build_spatial(real)
    name = "double" if real is wp.float64 else "float"

    exchange, exchange_adjoint, share, share_adjoint = (
        snippet.replace("REAL", name)
        for snippet in (_EXCHANGE, _EXCHANGE_ADJOINT, _SHARE, _SHARE_ADJOINT)
    )

    @wp.func_native(exchange, exchange_adjoint)
    def exchange_vec3(x: sp.vec3, mask: int) -> sp.vec3: ...

    @wp.func_native(exchange, exchange_adjoint)
    def exchange_mat33(x: sp.mat33, mask: int) -> sp.mat33: ...

    @wp.func_native(share, share_adjoint)
    def share_real(x: real) -> real: ...

    @wp.func_native(share, share_adjoint)
    def share_vec3(x: sp.vec3) -> sp.vec3: ...

    @wp.func_native(share, share_adjoint)
    def share_quat(x: sp.quat) -> sp.quat: ...

    @wp.func
    def sum_vec3(x: sp.vec3) -> sp.vec3:
        """Sum over the lanes, equal bit for bit in all of them."""
        pair = x + exchange_vec3(x, 1)
        return pair + exchange_vec3(pair, 2)

    @wp.func
    def sum_mat33(x: sp.mat33) -> sp.mat33:
        pair = x + exchange_mat33(x, 1)
        return pair + exchange_mat33(pair, 2)

    return SimpleNamespace(
        exchange_vec3=exchange_vec3,
        exchange_mat33=exchange_mat33,
        share_real=share_real,
        share_vec3=share_vec3,
        share_quat=share_quat,
        sum_vec3=sum_vec3,
        sum_mat33=sum_mat33,
    )
