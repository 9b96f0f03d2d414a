"""How near gradients of half types are, whatever their size."""

# Both sides are rounded to bfloat16, in other orders: each is some 2^-8 off.
LARGEST = 2e-2


def assert_close_by_norm(found, due):
    """Asserts that the norm of the difference is at most 2 % of that of `due`, which is not 0."""
    assert found.dtype == due.dtype and found.shape == due.shape
    found, due = found.double(), due.double()
    size = due.norm().item()
    assert size > 0
    error = (found - due).norm().item() / size
    assert error <= LARGEST, f"found a relative error of {error:.2e}, expected at most {LARGEST}"
