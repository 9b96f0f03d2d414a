#include "tests/support/nest_interpreter.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>

namespace kiln {
namespace {

float FromBFloat16(uint16_t bits) {
  const uint32_t wide = uint32_t{bits} << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

float FromFloat16(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  double value = exponent == 0 ? std::ldexp(fraction, -24)
                               : std::ldexp(1024 + fraction, exponent - 25);
  if (exponent == 31)
    value = fraction != 0 ? std::numeric_limits<double>::quiet_NaN()
                          : std::numeric_limits<double>::infinity();
  return static_cast<float>((bits & 0x8000) != 0 ? -value : value);
}

// Nearest, ties to even, by search among all 65536 neighbours' bits.
uint16_t ToBFloat16(float value) {
  if (std::isnan(value)) return 0x7fc0;
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const uint32_t rest = bits & 0xffff;
  uint32_t high = bits >> 16;
  if (rest > 0x8000 || (rest == 0x8000 && (high & 1) != 0)) ++high;
  return static_cast<uint16_t>(high);
}

uint16_t ToFloat16(float value) {
  if (std::isnan(value)) return 0x7e00;
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(static_cast<double>(value));
  if (magnitude >= 65520) return sign | 0x7c00;
  uint16_t low = 0, high = 0x7bff;  // the largest bits not above it
  while (low < high) {
    const uint16_t middle = static_cast<uint16_t>((low + high + 1) / 2);
    if (FromFloat16(middle) <= magnitude) {
      low = middle;
    } else {
      high = static_cast<uint16_t>(middle - 1);
    }
  }
  const double below = magnitude - FromFloat16(low);
  const double above =
      (low == 0x7bff ? 65536.0 : FromFloat16(static_cast<uint16_t>(low + 1))) -
      magnitude;
  if (above < below || (above == below && (low & 1) != 0)) ++low;
  return sign | low;
}

double Philox(uint64_t seed, uint64_t index, uint64_t stream) {
  uint32_t key[2] = {static_cast<uint32_t>(seed),
                     static_cast<uint32_t>(seed >> 32)};
  uint32_t c[4] = {
      static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
      static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * c[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * c[2];
    const uint32_t next[4] = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ key[0],
                              static_cast<uint32_t>(b),
                              static_cast<uint32_t>(a >> 32) ^ c[3] ^ key[1],
                              static_cast<uint32_t>(a)};
    std::memcpy(c, next, sizeof(c));
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return (c[0] >> 8) * std::ldexp(1.0, -24);
}

int64_t FloorDivide(int64_t a, int64_t b) {
  if (b == 0) return 0;
  const int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

// Into the range of the type, as C's conversions wrap.
AnyScalar Normal(DType dtype, AnyScalar v) {
  switch (dtype) {
    case DType::kBool:
      v.i = v.i != 0;
      break;
    case DType::kUInt8:
      v.i = static_cast<uint8_t>(v.i);
      break;
    case DType::kInt8:
      v.i = static_cast<int8_t>(v.i);
      break;
    case DType::kInt16:
      v.i = static_cast<int16_t>(v.i);
      break;
    case DType::kInt32:
      v.i = static_cast<int32_t>(v.i);
      break;
    case DType::kInt64:
    case DType::kFloat64:
      break;
    case DType::kFloat16:
      v.f = FromFloat16(ToFloat16(static_cast<float>(v.f)));
      break;
    case DType::kBFloat16:
      v.f = FromBFloat16(ToBFloat16(static_cast<float>(v.f)));
      break;
    case DType::kFloat32:
      v.f = static_cast<float>(v.f);
      break;
  }
  return v;
}

double FloatOp(ScalarOp op, double a, double b, double c) {
  const bool nan = std::isnan(a) || std::isnan(b);
  switch (op) {
    case ScalarOp::kAdd:
      return a + b;
    case ScalarOp::kSub:
      return a - b;
    case ScalarOp::kMul:
      return a * b;
    case ScalarOp::kDiv:
      return a / b;
    case ScalarOp::kFloorDiv:
      return std::floor(a / b);
    case ScalarOp::kTruncDiv:
      return std::trunc(a / b);
    case ScalarOp::kRemainder:
      return a - b * std::floor(a / b);
    case ScalarOp::kFmod:
      return std::fmod(a, b);
    case ScalarOp::kPow:
      return std::pow(a, b);
    case ScalarOp::kAtan2:
      return std::atan2(a, b);
    case ScalarOp::kCopySign:
      return std::copysign(a, b);
    case ScalarOp::kNextAfter:
      return std::nextafter(static_cast<float>(a), static_cast<float>(b));
    case ScalarOp::kHypot:
      return std::hypot(a, b);
    case ScalarOp::kMaximum:
      return nan ? NAN : std::fmax(a, b);
    case ScalarOp::kMinimum:
      return nan ? NAN : std::fmin(a, b);
    case ScalarOp::kFma:
      return std::fma(a, b, c);
    case ScalarOp::kNeg:
      return -a;
    case ScalarOp::kAbs:
      return std::fabs(a);
    case ScalarOp::kSign:
      return (a > 0) - (a < 0);
    case ScalarOp::kReciprocal:
      return 1 / a;
    case ScalarOp::kSquare:
      return a * a;
    case ScalarOp::kSqrt:
      return std::sqrt(a);
    case ScalarOp::kRsqrt:
      return 1 / std::sqrt(a);
    case ScalarOp::kExp:
      return std::exp(a);
    case ScalarOp::kExp2:
      return std::exp2(a);
    case ScalarOp::kExpm1:
      return std::expm1(a);
    case ScalarOp::kLog:
      return std::log(a);
    case ScalarOp::kLog2:
      return std::log2(a);
    case ScalarOp::kLog10:
      return std::log10(a);
    case ScalarOp::kLog1p:
      return std::log1p(a);
    case ScalarOp::kSin:
      return std::sin(a);
    case ScalarOp::kCos:
      return std::cos(a);
    case ScalarOp::kTan:
      return std::tan(a);
    case ScalarOp::kAsin:
      return std::asin(a);
    case ScalarOp::kAcos:
      return std::acos(a);
    case ScalarOp::kAtan:
      return std::atan(a);
    case ScalarOp::kSinh:
      return std::sinh(a);
    case ScalarOp::kCosh:
      return std::cosh(a);
    case ScalarOp::kTanh:
      return std::tanh(a);
    case ScalarOp::kAsinh:
      return std::asinh(a);
    case ScalarOp::kAcosh:
      return std::acosh(a);
    case ScalarOp::kAtanh:
      return std::atanh(a);
    case ScalarOp::kErf:
      return std::erf(a);
    case ScalarOp::kErfc:
      return std::erfc(a);
    case ScalarOp::kLgamma:
      return std::lgamma(a);
    case ScalarOp::kSigmoid:
      return 1 / (1 + std::exp(-a));
    case ScalarOp::kFloor:
      return std::floor(a);
    case ScalarOp::kCeil:
      return std::ceil(a);
    case ScalarOp::kTrunc:
      return std::trunc(a);
    case ScalarOp::kRound:
      return std::nearbyint(a);
    default:
      std::abort();
  }
}

int64_t IntegerOp(ScalarOp op, int64_t a, int64_t b, int64_t c) {
  switch (op) {
    case ScalarOp::kAdd:
      return a + b;
    case ScalarOp::kSub:
      return a - b;
    case ScalarOp::kMul:
      return a * b;
    case ScalarOp::kFloorDiv:
      return FloorDivide(a, b);
    case ScalarOp::kTruncDiv:
      return b == 0 ? 0 : a / b;
    case ScalarOp::kRemainder:
      return b == 0 ? 0 : a - b * FloorDivide(a, b);
    case ScalarOp::kFmod:
      return b == 0 ? 0 : a % b;
    case ScalarOp::kMaximum:
      return a > b ? a : b;
    case ScalarOp::kMinimum:
      return a < b ? a : b;
    case ScalarOp::kFma:
      return a * b + c;
    case ScalarOp::kNeg:
      return -a;
    case ScalarOp::kAbs:
      return a < 0 ? -a : a;
    case ScalarOp::kSign:
      return (a > 0) - (a < 0);
    case ScalarOp::kSquare:
      return a * a;
    case ScalarOp::kAnd:
      return a & b;
    case ScalarOp::kOr:
      return a | b;
    case ScalarOp::kXor:
      return a ^ b;
    case ScalarOp::kNot:
      return ~a;
    case ScalarOp::kShiftLeft:
      return a << b;
    case ScalarOp::kShiftRight:
      return a >> b;
    default:
      std::abort();
  }
}

class Interpreter {
 public:
  Interpreter(const LoopNest& nest, const std::vector<Buffer>& buffers,
              const NestRun& run)
      : nest_(nest), buffers_(buffers), run_(run) {
    for (const Axis& axis : nest.axes) {
      extents_.push_back(Value(axis.extent));
      if (!axis.reduction) ++outer_;
    }
    at_.assign(nest.axes.size(), 0);
  }

  void Run() { Outer(0); }

 private:
  int64_t Value(const SymExpr& e) {
    return e.Evaluate([&](Var var) -> int64_t {
      if (var.kind == Var::Kind::kSymbol) return run_.symbols[var.index];
      if (var.kind == Var::Kind::kAxis) return at_[var.index];
      return Eval(var.index).i;
    });
  }

  // All outer points; then, at each, all reduced points.
  void Outer(size_t axis) {
    if (axis < outer_) {
      for (at_[axis] = 0; at_[axis] < extents_[axis]; ++at_[axis])
        Outer(axis + 1);
      return;
    }
    results_.clear();
    std::vector<bool> reduced(nest_.stores.size());
    for (size_t s = 0; s < nest_.stores.size(); ++s)
      reduced[s] = StoreIsReduced(nest_.stores[s]);
    // Values first, since a buffer may be overwritten in place.
    struct Write {
      const Store* store;
      int64_t element;
      AnyScalar value;
    };
    std::vector<Write> writes;
    const auto note = [&](const Store& store) {
      if (store.mask != Store::kNoMask && Eval(store.mask).i == 0) return;
      writes.push_back(
          {&store, Element(store.buffer, store.index), Eval(store.value)});
    };
    ForReduced(outer_, [&] {
      for (size_t s = 0; s < nest_.stores.size(); ++s)
        if (reduced[s]) note(nest_.stores[s]);
    });
    std::fill(at_.begin() + outer_, at_.end(), 0);
    for (size_t s = 0; s < nest_.stores.size(); ++s)
      if (!reduced[s]) note(nest_.stores[s]);
    for (const Write& w : writes) {
      const DType dtype = buffers_[w.store->buffer].dtype;
      void* memory = run_.memory[w.store->buffer];
      AnyScalar value = w.value;
      if (w.store->mode == StoreMode::kAtomicAdd) {
        const AnyScalar old = ReadElement(dtype, memory, w.element);
        value.f += old.f;
        value.i += old.i;
      }
      WriteElement(dtype, memory, w.element, Normal(dtype, value));
    }
  }

  template <typename Body>
  void ForReduced(size_t axis, Body body) {
    if (axis == nest_.axes.size()) {
      body();
      return;
    }
    for (at_[axis] = 0; at_[axis] < extents_[axis]; ++at_[axis])
      ForReduced(axis + 1, body);
  }

  bool Reduced(ScalarId id) {
    const ScalarNode& node = nest_.body[id];
    if (node.op == ScalarOp::kReduce || node.op == ScalarOp::kReduceResult)
      return false;
    if (node.op == ScalarOp::kScan) return true;
    bool reduced = false;
    for (ScalarId arg : node.args) reduced |= Reduced(arg);
    for (const SymExpr& index : node.index) reduced |= Reduced(index);
    return reduced;
  }
  bool Reduced(const SymExpr& index) {
    bool reduced = false;
    index.VisitVars([&](Var var) {
      if (var.kind == Var::Kind::kAxis) reduced |= var.index >= outer_;
      if (var.kind == Var::Kind::kIndirect) reduced |= Reduced(var.index);
    });
    return reduced;
  }
  bool StoreIsReduced(const Store& store) {
    bool reduced = Reduced(store.value);
    if (store.mask != Store::kNoMask) reduced |= Reduced(store.mask);
    for (const SymExpr& index : store.index) reduced |= Reduced(index);
    return reduced;
  }

  int64_t Element(BufferId buffer, const DimVector& index) {
    int64_t element = Value(buffers_[buffer].offset);
    for (size_t d = 0; d < index.size(); ++d)
      element += Value(index[d]) * Value(buffers_[buffer].strides[d]);
    return element;
  }

  AnyScalar Eval(ScalarId id) {
    const ScalarNode& node = nest_.body[id];
    AnyScalar v;
    switch (node.op) {
      case ScalarOp::kConstant:
        if (IsFloat(node.dtype)) {
          v.f = node.number.f;
        } else {
          v.i = node.number.i;
        }
        return Normal(node.dtype, v);
      case ScalarOp::kIndex:
        v.i = Value(node.index[0]);
        return v;
      case ScalarOp::kLoad:
        if (!node.args.empty() && Eval(node.args[0]).i == 0) {
          if (IsFloat(node.dtype)) {
            v.f = node.number.f;
          } else {
            v.i = node.number.i;
          }
          return v;
        }
        return ReadElement(node.dtype, run_.memory[node.buffer],
                           Element(node.buffer, node.index));
      case ScalarOp::kSeed:
        v.i = static_cast<int64_t>(run_.seed);
        return v;
      case ScalarOp::kRandom:
        v.f = Philox(run_.seed, Eval(node.args[1]).i, node.number.i);
        return v;
      case ScalarOp::kReduce:
        return Reduce(id).first;
      case ScalarOp::kReduceResult:
        return node.number.i == 0 ? Reduce(node.args[0]).first
                                  : Reduce(node.args[0]).second;
      case ScalarOp::kScan: {
        const int64_t here = at_.back();
        v = Start(node);
        for (at_.back() = 0; at_.back() <= here; ++at_.back())
          v = Normal(node.dtype, Combine(node, v, Eval(node.args[0])));
        at_.back() = here;
        return v;
      }
      default:
        return Normal(node.dtype, Operation(node));
    }
  }

  AnyScalar Operation(const ScalarNode& node) {
    AnyScalar a[3];
    for (size_t k = 0; k < node.args.size(); ++k) a[k] = Eval(node.args[k]);
    const DType from = nest_.body[node.args[0]].dtype;
    AnyScalar v;
    switch (node.op) {
      case ScalarOp::kWhere:
        return a[0].i != 0 ? a[1] : a[2];
      case ScalarOp::kCast:
        if (IsFloat(node.dtype)) {
          v.f = IsFloat(from) ? a[0].f : static_cast<double>(a[0].i);
        } else if (node.dtype == DType::kBool) {
          v.i = IsFloat(from) ? a[0].f != 0 : a[0].i != 0;
        } else {
          v.i = IsFloat(from) ? static_cast<int64_t>(a[0].f) : a[0].i;
        }
        return v;
      case ScalarOp::kEq:
        v.i = IsFloat(from) ? a[0].f == a[1].f : a[0].i == a[1].i;
        return v;
      case ScalarOp::kNe:
        v.i = IsFloat(from) ? a[0].f != a[1].f : a[0].i != a[1].i;
        return v;
      case ScalarOp::kLt:
        v.i = IsFloat(from) ? a[0].f < a[1].f : a[0].i < a[1].i;
        return v;
      case ScalarOp::kLe:
        v.i = IsFloat(from) ? a[0].f <= a[1].f : a[0].i <= a[1].i;
        return v;
      case ScalarOp::kGt:
        v.i = IsFloat(from) ? a[0].f > a[1].f : a[0].i > a[1].i;
        return v;
      case ScalarOp::kGe:
        v.i = IsFloat(from) ? a[0].f >= a[1].f : a[0].i >= a[1].i;
        return v;
      case ScalarOp::kIsNan:
        v.i = std::isnan(a[0].f);
        return v;
      case ScalarOp::kIsInf:
        v.i = std::isinf(a[0].f);
        return v;
      case ScalarOp::kSignBit:
        v.i = std::signbit(a[0].f);
        return v;
      default:
        break;
    }
    if (IsFloat(from)) {
      v.f = FloatOp(node.op, a[0].f, a[1].f, a[2].f);
    } else if (from == DType::kBool && node.op == ScalarOp::kNot) {
      v.i = a[0].i == 0;
    } else {
      v.i = IntegerOp(node.op, a[0].i, a[1].i, a[2].i);
    }
    return v;
  }

  AnyScalar Start(const ScalarNode& node) {
    const double inf = std::numeric_limits<double>::infinity();
    AnyScalar v;
    switch (node.reduce) {
      case ReduceOp::kProd:
        v.f = 1;
        v.i = 1;
        break;
      case ReduceOp::kAll:
        v.i = -1;
        break;
      case ReduceOp::kMax:
        v.f = -inf;
        v.i = INT64_MIN;
        break;
      case ReduceOp::kMin:
        v.f = inf;
        v.i = INT64_MAX;
        break;
      default:
        break;
    }
    return v;
  }

  AnyScalar Combine(const ScalarNode& node, AnyScalar a, AnyScalar b) {
    AnyScalar v;
    const bool nan = std::isnan(a.f) || std::isnan(b.f);
    switch (node.reduce) {
      case ReduceOp::kSum:
        v.f = a.f + b.f;
        v.i = a.i + b.i;
        break;
      case ReduceOp::kProd:
        v.f = a.f * b.f;
        v.i = a.i * b.i;
        break;
      case ReduceOp::kMax:
        v.f = nan ? NAN : std::fmax(a.f, b.f);
        v.i = std::max(a.i, b.i);
        break;
      case ReduceOp::kMin:
        v.f = nan ? NAN : std::fmin(a.f, b.f);
        v.i = std::min(a.i, b.i);
        break;
      case ReduceOp::kAny:
        v.i = a.i | b.i;
        break;
      case ReduceOp::kAll:
        v.i = a.i & b.i;
        break;
      case ReduceOp::kXor:
        v.i = a.i ^ b.i;
        break;
      default:
        std::abort();
    }
    return v;
  }

  // The value and, for tuples, the second member.
  std::pair<AnyScalar, AnyScalar> Reduce(ScalarId id) {
    for (const auto& [done, result] : results_)
      if (done == id) return result;
    const ScalarNode& node = nest_.body[id];
    const std::vector<int64_t> here = at_;
    std::optional<std::pair<AnyScalar, AnyScalar>> best;
    AnyScalar sum = Start(node);
    int64_t position = 0;
    const bool tuple =
        node.reduce == ReduceOp::kArgMax || node.reduce == ReduceOp::kArgMin;
    ForReduced(outer_, [&] {
      const AnyScalar x = Eval(node.args[0]);
      if (!tuple) {
        sum = Combine(node, sum, x);  // in double: closer than any order
      } else {
        AnyScalar at;
        at.i = node.args.size() > 1 ? Eval(node.args[1]).i : position;
        const auto better = [&](AnyScalar a, AnyScalar b) {
          if (!IsFloat(node.dtype))
            return node.reduce == ReduceOp::kArgMax ? a.i > b.i : a.i < b.i;
          if (std::isnan(b.f)) return false;
          return std::isnan(a.f) ||
                 (node.reduce == ReduceOp::kArgMax ? a.f > b.f : a.f < b.f);
        };
        if (!best || better(x, best->first)) best = {x, at};
      }
      ++position;
    });
    at_ = here;
    std::pair<AnyScalar, AnyScalar> result = {Normal(node.dtype, sum), {}};
    if (best) result = *best;
    results_.push_back({id, result});
    return result;
  }

  const LoopNest& nest_;
  const std::vector<Buffer>& buffers_;
  const NestRun& run_;
  std::vector<int64_t> extents_;
  std::vector<int64_t> at_;
  size_t outer_ = 0;
  // Of the reductions at this outer point.
  std::vector<std::pair<ScalarId, std::pair<AnyScalar, AnyScalar>>> results_;
};

}  // namespace

AnyScalar ReadElement(DType dtype, const void* memory, int64_t element) {
  AnyScalar v;
  const auto read = [&](auto cell) {
    std::memcpy(&cell,
                static_cast<const char*>(memory) +
                    element * static_cast<int64_t>(sizeof(cell)),
                sizeof(cell));
    return cell;
  };
  switch (dtype) {
    case DType::kBool:
      v.i = read(uint8_t{}) != 0;
      break;
    case DType::kUInt8:
      v.i = read(uint8_t{});
      break;
    case DType::kInt8:
      v.i = read(int8_t{});
      break;
    case DType::kInt16:
      v.i = read(int16_t{});
      break;
    case DType::kInt32:
      v.i = read(int32_t{});
      break;
    case DType::kInt64:
      v.i = read(int64_t{});
      break;
    case DType::kFloat16:
      v.f = FromFloat16(read(uint16_t{}));
      break;
    case DType::kBFloat16:
      v.f = FromBFloat16(read(uint16_t{}));
      break;
    case DType::kFloat32:
      v.f = read(float{});
      break;
    case DType::kFloat64:
      v.f = read(double{});
      break;
  }
  return v;
}

void WriteElement(DType dtype, void* memory, int64_t element, AnyScalar v) {
  const auto write = [&](auto cell) {
    std::memcpy(static_cast<char*>(memory) +
                    element * static_cast<int64_t>(sizeof(cell)),
                &cell, sizeof(cell));
  };
  switch (dtype) {
    case DType::kBool:
      write(static_cast<uint8_t>(v.i != 0));
      break;
    case DType::kUInt8:
      write(static_cast<uint8_t>(v.i));
      break;
    case DType::kInt8:
      write(static_cast<int8_t>(v.i));
      break;
    case DType::kInt16:
      write(static_cast<int16_t>(v.i));
      break;
    case DType::kInt32:
      write(static_cast<int32_t>(v.i));
      break;
    case DType::kInt64:
      write(v.i);
      break;
    case DType::kFloat16:
      write(ToFloat16(static_cast<float>(v.f)));
      break;
    case DType::kBFloat16:
      write(ToBFloat16(static_cast<float>(v.f)));
      break;
    case DType::kFloat32:
      write(static_cast<float>(v.f));
      break;
    case DType::kFloat64:
      write(v.f);
      break;
  }
}

void InterpretNest(const LoopNest& nest, const std::vector<Buffer>& buffers,
                   const NestRun& run) {
  Interpreter(nest, buffers, run).Run();
}

}  // namespace kiln
