#include "compiler/emit/sym_to_wire.h"

#include <cmath>
#include <cstring>

namespace kiln {
namespace {

void Push(wire::SymExpr& out, wire::SymOp op, int64_t value = 0) {
  wire::SymInstruction& instruction = *out.add_code();
  instruction.set_op(op);
  if (value != 0) instruction.set_value(value);
}

void Append(const SymExpr& e, wire::SymExpr& out);

wire::SymOp WireOp(SymOp op) {
  switch (op) {
    case SymOp::kFloorDiv:
      return wire::SYM_OP_FLOORDIV;
    case SymOp::kMod:
      return wire::SYM_OP_MOD;
    case SymOp::kMin:
      return wire::SYM_OP_MIN;
    case SymOp::kMax:
      return wire::SYM_OP_MAX;
  }
  return wire::SYM_OP_UNSPECIFIED;
}

void AppendAtom(const SymExpr::Atom& atom, wire::SymExpr& out) {
  if (atom.is_var()) {
    Push(out, wire::SYM_OP_SYMBOL, atom.var.index);
    return;
  }
  Append(atom.operands->first, out);
  Append(atom.operands->second, out);
  Push(out, WireOp(atom.op));
}

void AppendTerm(const SymExpr::Term& term, wire::SymExpr& out) {
  const bool number = term.coefficient != 1 || term.atoms.empty();
  if (number) Push(out, wire::SYM_OP_CONSTANT, term.coefficient);
  bool first = !number;
  for (const SymExpr::Atom& atom : term.atoms) {
    AppendAtom(atom, out);
    if (!first) Push(out, wire::SYM_OP_MUL);
    first = false;
  }
}

void Append(const SymExpr& e, wire::SymExpr& out) {
  if (e.is_constant()) {
    Push(out, wire::SYM_OP_CONSTANT, e.constant());
    return;
  }
  bool first = true;
  for (const SymExpr::Term& term : e.sum().terms) {
    AppendTerm(term, out);
    if (!first) Push(out, wire::SYM_OP_ADD);
    first = false;
  }
}

wire::SymOp WireOp(GuardOp op) {
  switch (op) {
    case GuardOp::kEq:
      return wire::SYM_OP_EQ;
    case GuardOp::kNe:
      return wire::SYM_OP_NE;
    case GuardOp::kLt:
      return wire::SYM_OP_LT;
    case GuardOp::kLe:
      return wire::SYM_OP_LE;
  }
  return wire::SYM_OP_UNSPECIFIED;
}

uint32_t BitsOf(float f) {
  uint32_t bits;
  std::memcpy(&bits, &f, sizeof bits);
  return bits;
}

uint16_t ToBFloat16(float f) {
  const uint32_t bits = BitsOf(f);
  if (std::isnan(f)) return 0x7fc0;
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// Values beyond 65504 round to infinity, those below 2^-14 to denormals.
uint16_t ToFloat16(float f) {
  const uint16_t sign = static_cast<uint16_t>((BitsOf(f) >> 16) & 0x8000);
  if (std::isnan(f)) return sign | 0x7e00;
  const float a = std::fabs(f);
  if (a >= 65520.0f) return sign | 0x7c00;
  // One unit in the last place of a half with a's exponent.
  int exponent = 0;
  std::frexp(a, &exponent);
  const int unit = exponent - 11 < -24 ? -24 : exponent - 11;
  const float rounded = std::nearbyint(std::ldexp(a, -unit));
  const float value = std::ldexp(rounded, unit);
  if (value < std::ldexp(1.0f, -14)) {
    return sign | static_cast<uint16_t>(std::ldexp(value, 24));
  }
  const uint32_t bits = BitsOf(value);
  return sign | static_cast<uint16_t>(((bits >> 13) & 0x3ff) |
                                      ((((bits >> 23) & 0xff) - 112) << 10));
}

}  // namespace

wire::SymExpr ToWire(const SymExpr& e) {
  wire::SymExpr out;
  if (e.is_constant()) {
    out.set_value(e.constant());
  } else {
    Append(e, out);
  }
  return out;
}

wire::SymGuard ToWire(const Guard& guard) {
  wire::SymGuard out;
  Append(guard.left, *out.mutable_condition());
  Append(guard.right, *out.mutable_condition());
  Push(*out.mutable_condition(), WireOp(guard.op));
  out.set_origin(guard.origin);
  return out;
}

uint64_t ElementBits(DType dtype, Number value) {
  uint64_t bits = 0;
  switch (dtype) {
    case DType::kFloat64:
      std::memcpy(&bits, &value.f, sizeof bits);
      return bits;
    case DType::kFloat32:
      return BitsOf(static_cast<float>(value.f));
    case DType::kBFloat16:
      return ToBFloat16(static_cast<float>(value.f));
    case DType::kFloat16:
      return ToFloat16(static_cast<float>(value.f));
    case DType::kBool:
      return value.i != 0 ? 1 : 0;
    case DType::kUInt8:
    case DType::kInt8:
      return static_cast<uint8_t>(value.i);
    case DType::kInt16:
      return static_cast<uint16_t>(value.i);
    case DType::kInt32:
      return static_cast<uint32_t>(value.i);
    case DType::kInt64:
      return static_cast<uint64_t>(value.i);
  }
  return 0;
}

}  // namespace kiln
