#include "tests/support/nest_interpreter.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <optional>

#include "tests/support/scalar_ops.h"

namespace kiln {
namespace {

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

  bool Run() {
    // What no point reaches is 0.
    for (const Store& store : nest_.stores) {
      if (store.mode != StoreMode::kSum) continue;
      int64_t elements = 1;
      for (const SymExpr& size : buffers_[store.buffer].sizes)
        elements *= Value(size);
      std::memset(run_.memory[store.buffer], 0,
                  static_cast<size_t>(
                      elements * SizeInBytes(buffers_[store.buffer].dtype)));
    }
    Outer(0);
    return inside_;
  }

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
    running_.clear();
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
      inside_ &= buffers_[store.buffer].assertion.empty() ||
                 writes.back().value.i != 0;
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
      if (w.store->mode == StoreMode::kAtomicMax) {
        value.i = std::max(value.i, ReadElement(dtype, memory, w.element).i);
      } else if (w.store->mode == StoreMode::kAtomicMul) {
        const AnyScalar old = ReadElement(dtype, memory, w.element);
        value.f *= old.f;
        value.i *= old.i;
      } else if (w.store->mode != StoreMode::kSet) {
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
    if (IsAlongRow(node.op)) return true;
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
        v.f = Philox(run_.seed + (node.number.i >> 32), Eval(node.args[1]).i,
                     node.number.i & 0xffffffff);
        return v;
      case ScalarOp::kReduce:
        return Reduce(id).first;
      case ScalarOp::kReduceResult:
        if (nest_.body[node.args[0]].reduce == ReduceOp::kMoments &&
            node.number.i == 1) {
          double points = 1;
          for (size_t a = outer_; a < extents_.size(); ++a)
            points *= static_cast<double>(extents_[a]);
          v = Reduce(node.args[0]).first;
          v.f /= points;
          return Normal(node.dtype, v);
        }
        return node.number.i == 0 ? Reduce(node.args[0]).first
                                  : Reduce(node.args[0]).second;
      case ScalarOp::kSort: {
        const int64_t here = at_.back();
        std::vector<double> values;
        for (at_.back() = 0; at_.back() < extents_.back(); ++at_.back()) {
          const AnyScalar x = Eval(node.args[0]);
          values.push_back(IsFloat(nest_.body[node.args[0]].dtype)
                               ? x.f
                               : static_cast<double>(x.i));
        }
        at_.back() = here;
        std::vector<int64_t> places(values.size());
        std::iota(places.begin(), places.end(), 0);
        std::stable_sort(
            places.begin(), places.end(), [&](int64_t a, int64_t b) {
              const bool up = node.reduce == ReduceOp::kMin;
              const double low = values[up ? a : b], high = values[up ? b : a];
              return std::isnan(high) ? !std::isnan(low) : low < high;
            });
        v.i = places[static_cast<size_t>(here)];
        return v;
      }
      case ScalarOp::kTally:
        return Tally(id);
      case ScalarOp::kScan:
        return Normal(node.dtype, Scan(id));
      default:
        return Normal(node.dtype, Operation(node));
    }
  }

  // In double, as a running sum is. A point behind the one that was asked for last
  // goes on from there.
  AnyScalar Scan(ScalarId id) {
    const ScalarNode& node = nest_.body[id];
    Running& last = running_[id];
    if (last.at == at_) return last.sum;
    std::vector<int64_t> before = at_;
    --before.back();
    const int64_t here = at_.back();
    if (last.at != before) {
      last.sum = Start(node);
      at_.back() = 0;
    }
    for (; at_.back() <= here; ++at_.back())
      last.sum = Combine(node, last.sum, Eval(node.args[0]));
    at_.back() = here;
    last.at = at_;
    return last.sum;
  }

  // All of a row at once.
  AnyScalar Tally(ScalarId id) {
    const ScalarNode& node = nest_.body[id];
    std::vector<int64_t> row = at_;
    row.back() = 0;
    Tallied& known = tallied_[id];
    if (known.row != row) {
      const int64_t here = at_.back();
      known = {row, {}};
      std::map<int64_t, int64_t> seen;
      for (at_.back() = 0; at_.back() < extents_.back(); ++at_.back())
        known.before.push_back(seen[Eval(node.args[0]).i]++);
      at_.back() = here;
    }
    AnyScalar v;
    v.i = known.before[static_cast<size_t>(at_.back())];
    return v;
  }

  AnyScalar Operation(const ScalarNode& node) {
    AnyScalar a[3];
    for (size_t k = 0; k < node.args.size(); ++k) a[k] = Eval(node.args[k]);
    const DType from = nest_.body[node.args[0]].dtype;
    AnyScalar v;
    switch (node.op) {
      case ScalarOp::kWrapIndex:
        if (a[0].i < 0) a[0].i += a[1].i;
        [[fallthrough]];
      case ScalarOp::kCheckIndex:
        if (a[0].i >= 0 && a[0].i < a[1].i) return a[0];
        inside_ &= node.args.size() > 2 && a[2].i == 0;
        return v;
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
      case ScalarOp::kBitcast: {
        char bytes[8] = {};
        WriteElement(from, bytes, 0, a[0]);
        return ReadElement(node.dtype, bytes, 0);
      }
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
      case ReduceOp::kLogSumExp:
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
      case ReduceOp::kLogSumExp:
        v.f = std::fmax(a.f, b.f);
        if (!std::isinf(v.f))
          v.f += std::log(std::exp(a.f - v.f) + std::exp(b.f - v.f));
        if (nan) v.f = NAN;
        break;
      default:
        std::abort();
    }
    return v;
  }

  // Both members of kSoftmax and kMoments, as two reductions.
  std::pair<AnyScalar, AnyScalar> SecondPass(const ScalarNode& node,
                                             const std::vector<int64_t>& here) {
    const bool softmax = node.reduce == ReduceOp::kSoftmax;
    AnyScalar first, second;
    double count = 0;
    first.f = softmax ? -INFINITY : 0;
    ForReduced(outer_, [&] {
      const double x = Eval(node.args[0]).f;
      first.f =
          softmax ? (std::isnan(x) || x > first.f ? x : first.f) : first.f + x;
      ++count;
    });
    second.f = 0;
    const double from = softmax ? first.f : first.f / count;
    ForReduced(outer_, [&] {
      const double x = Eval(node.args[0]).f - from;
      second.f += softmax ? std::exp(x) : x * x;
    });
    at_ = here;
    return {Normal(node.dtype, first), Normal(node.dtype, second)};
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
    const bool tuple = IsArgReduction(node.reduce);
    ForReduced(outer_, [&] {
      if (IsTupleReduction(node.reduce) && !tuple) return;
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
    if (node.reduce == ReduceOp::kSoftmax ||
        node.reduce == ReduceOp::kMoments) {
      result = SecondPass(node, here);
    }
    results_.push_back({id, result});
    return result;
  }

  const LoopNest& nest_;
  const std::vector<Buffer>& buffers_;
  const NestRun& run_;
  std::vector<int64_t> extents_;
  std::vector<int64_t> at_;
  size_t outer_ = 0;
  bool inside_ = true;
  // Of the reductions at this outer point.
  struct Running {
    std::vector<int64_t> at;  // where the sum is of
    AnyScalar sum;
  };
  std::map<ScalarId, Running> running_;  // of each kScan
  struct Tallied {
    std::vector<int64_t> row;
    std::vector<int64_t> before;  // of each point
  };
  std::map<ScalarId, Tallied> tallied_;  // of each kTally
  std::vector<std::pair<ScalarId, std::pair<AnyScalar, AnyScalar>>> results_;
};

}  // namespace

bool InterpretNest(const LoopNest& nest, const std::vector<Buffer>& buffers,
                   const NestRun& run) {
  return Interpreter(nest, buffers, run).Run();
}

}  // namespace kiln
