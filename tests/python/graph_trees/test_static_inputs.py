"""Parameters and other inputs that keep their addresses: section 14.5 of the fact sheet."""

import torch

from trees import graphs, recordings, skips, state


def test_parameters_are_read_where_they_are():
    linear = torch.nn.Linear(8, 8, device="cuda")
    called = graphs(linear)
    x = torch.rand(4, 8, device="cuda")
    with torch.no_grad():
        for _ in range(5):
            linear.weight.add_(1)
            torch.testing.assert_close(called(x), linear(x))
    assert recordings() == 1
    assert state()["recorded_copied_inputs"] == 1


def test_rerecord_if_static_input_address_changed():
    linear = torch.nn.Linear(8, 8, device="cuda")
    called = graphs(linear)
    x = torch.rand(4, 8, device="cuda")
    with torch.no_grad():
        for number in range(6):
            if number == 3:
                linear.weight.data = torch.rand(8, 8, device="cuda")
            torch.testing.assert_close(called(x), linear(x))
    assert recordings() == 2
    assert skips() == 0


def test_no_rerecord_with_mark_static_address():
    called = graphs(lambda x, y: x * y)
    static = torch.rand(4, device="cuda")
    torch._dynamo.mark_static_address(static)
    for _ in range(4):
        x = torch.rand(4, device="cuda")
        assert torch.equal(called(x, static), x * static)
    assert recordings() == 1
    assert state()["recorded_copied_inputs"] == 1


def test_unaligned_static_parameter():
    whole = torch.rand(17, device="cuda")
    weight = torch.nn.Parameter(whole[1:])

    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = weight

        def forward(self, x):
            return self.weight * x

    module = Module()
    called = graphs(module)
    with torch.no_grad():
        for _ in range(4):
            x = torch.rand(16, device="cuda")
            torch.testing.assert_close(called(x), module(x))
    assert state()["nodes"][0]["addresses"] == [0, 0]


def test_multi_dispatch_single_compile():
    first, second = (torch.nn.Linear(2, 2, device="cuda") for _ in range(2))

    def run(module, x):
        return module(x)

    called = graphs(run)
    x = torch.rand(2, 2, device="cuda")
    with torch.no_grad():
        for _ in range(3):
            for module in (first, second):
                torch.testing.assert_close(called(module, x), module(x))
    assert skips() == 0
