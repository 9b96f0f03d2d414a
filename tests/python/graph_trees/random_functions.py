"""Functions of random operators, as text: views, drops, writes, results that share memory or are None.

    function = RandomFunction(random.Random(3), writes=False)
    function.text        # def function(x0, x1): ...
    function.compute     # the same, to be called or compiled

All tensors are of 64-bit integers, so that every value is exact; a whole one has four.
"""

import torch

CELLS = 4
MODULUS = 1_000_003


class RandomFunction:
    def __init__(self, dice, writes):
        """``writes``: to inputs too, of which no result is a view then."""
        self.dice, self.writes = dice, writes
        self.inputs = dice.randrange(3)
        self.has_parameter = self.inputs == 0 or dice.randrange(3) == 0  # the last input
        self.inputs += self.has_parameter
        names = [f"x{i}" for i in range(self.inputs)]
        self._cells = dict.fromkeys(names, CELLS)
        self._is_inputs = dict.fromkeys(names, True)
        self._lines = [f"def function({', '.join(names)}):"]
        for name in names if writes else ():
            if dice.randrange(3) == 0:
                self._write(f"{name}.add_({dice.randint(1, 9)})")
        for _ in range(dice.randint(1, 6)):
            self._add_step()
        self._compute(self._any())
        results = [f"v{len(self._lines) - 1}", *(self._result() for _ in range(dice.randrange(3)))]
        self._write(f"return {', '.join(results)},")
        self.text = "\n".join(self._lines) + "\n"
        place = {}
        exec(compile(self.text, f"<{self.text}>", "exec"), place)
        self.compute = place["function"]

    def _write(self, line):
        self._lines.append(f"    {line}")

    def _any(self):
        return self.dice.choice(list(self._cells))

    def _name(self, text, cells, is_input=False):
        name = f"v{len(self._lines)}"
        self._cells[name], self._is_inputs[name] = cells, is_input
        self._write(f"{name} = {text}")

    def _add_step(self):
        kind, at = self.dice.randrange(5), self._any()
        if kind == 0 and len(self._cells) > 1:  # one is left to compute with
            del self._cells[at]
            self._write(f"del {at}")
        elif kind == 1:
            start = self.dice.randrange(self._cells[at])
            self._name(f"{at}[{start}:]", self._cells[at] - start, self._is_inputs[at])
        elif kind == 2 and not self._is_inputs[at]:
            self._write(f"{at}.add_({self.dice.randint(1, 9)})")
        else:
            self._compute(at)

    def _compute(self, at):
        a, b, other = self.dice.randint(1, 5), self.dice.randrange(100), self._any()
        self._name(f"({at} * {a} + {other}.sum() + {b}) % {MODULUS}", self._cells[at])

    def _result(self):
        at = self._any()
        return "None" if self._is_inputs[at] and self.writes else at


def fresh(dice):
    """A new whole tensor of the user."""
    value = dice.randrange(1000)
    return torch.arange(value, value + CELLS, device="cuda" if torch.cuda.is_available() else "cpu")
