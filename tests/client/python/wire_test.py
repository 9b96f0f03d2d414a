"""client/python/kiln/wire.py against the real parser, protoc, and proto/graph.proto."""

import os
import subprocess
import sys
import unittest

ROOT = sys.argv.pop(1)
sys.path.insert(0, os.path.join(ROOT, "client/python/kiln"))
sys.dont_write_bytecode = True

import wire  # noqa: E402


def parsed(message, data):
    """protoc's text of `data`, without blanks at the ends of lines."""
    done = subprocess.run(
        ["protoc", f"--decode=kiln.wire.{message}", "proto/graph.proto"],
        cwd=ROOT,
        input=data,
        capture_output=True,
        check=True,
    )
    return done.stdout.decode().split()


class Wire(unittest.TestCase):
    def test_integers_of_all_lengths_are_read_back(self):
        for value in (
            0,
            1,
            -1,
            63,
            64,
            -64,
            -65,
            300,
            1 << 31,
            -(1 << 40),
            (1 << 63) - 1,
            -(1 << 63),
        ):
            self.assertEqual(parsed("Argument", wire.sint(2, value)), ["int_value:", str(value)])

    def test_an_integer_beyond_64_bits_is_refused(self):
        for value in (1 << 63, -(1 << 63) - 1):
            with self.assertRaises(OverflowError):
                wire.sint(2, value)
        for value in (-1, 1 << 64):
            with self.assertRaises(OverflowError):
                wire.uint(4, value)

    def test_floats_are_read_back(self):
        for value, text in (
            (0.0, "0"),
            (-2.5, "-2.5"),
            (float("inf"), "inf"),
            (float("nan"), "nan"),
        ):
            self.assertEqual(parsed("Argument", wire.double(3, value)), ["float_value:", text])

    def test_texts_are_read_back_in_utf8(self):
        self.assertEqual(parsed("Argument", wire.text(5, "mean")), ["string_value:", '"mean"'])
        self.assertEqual(
            parsed("Argument", wire.text(5, "\u00e9")), ["string_value:", '"\\303\\251"']
        )

    def test_long_messages_have_long_lengths(self):
        text = "x" * 20000
        self.assertEqual(parsed("Argument", wire.text(5, text)), ["string_value:", f'"{text}"'])

    def test_a_graph_is_read_back_whole(self):
        size = wire.each(
            2,
            [wire.uint(1, 2) + wire.sint(2, 0), wire.uint(1, 1) + wire.sint(2, 4), wire.uint(1, 4)],
        )
        meta = (
            wire.uint(1, 9)
            + wire.each(2, [size])
            + wire.each(3, [wire.sint(1, 1)])
            + wire.uint(5, 1)
        )
        node = wire.text(1, "aten.add.Tensor") + wire.each(2, [wire.uint(1, 0), wire.uint(1, 0)])
        graph = (
            wire.text(1, "g")
            + wire.each(2, [wire.text(1, "s0") + wire.sint(2, 3)])
            + wire.each(3, [wire.text(1, "x") + wire.data(2, meta) + wire.uint(4, 16)])
            + wire.each(5, [node + wire.data(4, meta)])
            + wire.each(6, [wire.uint(1, 1)])
        )
        tensor = (
            "dtype: DTYPE_FLOAT32 sizes { code { op: SYM_OP_SYMBOL } "
            "code { op: SYM_OP_CONSTANT value: 4 } code { op: SYM_OP_MUL } } strides { value: 1 } device: DEVICE_TYPE_CPU"
        )
        due = (
            'name: "g" symbols { name: "s0" hint: 3 } inputs { name: "x" tensor { '
            + tensor
            + ' } alignment_bytes: 16 } nodes { op: "aten.add.Tensor" '
            + "args { value: 0 } args { value: 0 } results { "
            + tensor
            + " } } outputs { value: 1 }"
        )
        self.assertEqual(parsed("Graph", graph), due.split())


if __name__ == "__main__":
    unittest.main()
