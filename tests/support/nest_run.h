#ifndef KILN_TESTS_SUPPORT_NEST_RUN_H_
#define KILN_TESTS_SUPPORT_NEST_RUN_H_

// One nest of a program, point by point: a part of loop_interpreter.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "compiler/loop/loop_text.h"
#include "tests/support/loop_interpreter.h"

namespace kiln {

// Of a buffer.
struct Memory {
  char* first = nullptr;
  int64_t elements = 0;
};

// One kernel in the making: all reduced points of one outer point at once.
class NestRun {
 public:
  NestRun(const LoopNest& nest, const std::vector<Buffer>& buffers,
          const std::vector<Memory>& memory,
          const std::vector<int64_t>& symbols)
      : nest_(nest), buffers_(buffers), memory_(memory), symbols_(symbols) {
    for (const Axis& axis : nest.axes) {
      const int64_t extent = axis.extent.Evaluate([&](Var v) -> int64_t {
        return v.kind == Var::Kind::kSymbol ? symbols[v.index] : 0;
      });
      (axis.reduction ? reduced_ : outer_).push_back(extent);
    }
    values_.resize(nest.body.size());
    reduced_points_ = 1;
    for (const int64_t extent : reduced_) reduced_points_ *= extent;
    FindReducedNodes();
  }

  absl::Status AllPoints() {
    int64_t count = 1;
    for (const int64_t extent : outer_) count *= extent;
    for (int64_t p = 0; p < count; ++p) {
      SetDigits(p, outer_, 0);
      absl::Status status = OnePoint();
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  void SetDigits(int64_t linear, const std::vector<int64_t>& extents,
                 size_t first) {
    axes_.resize(outer_.size() + reduced_.size());
    for (size_t k = extents.size(); k-- > 0;) {
      axes_[first + k] = linear % extents[k];
      linear /= extents[k];
    }
  }

  int64_t Eval(const SymExpr& e, int64_t r) {
    return e.Evaluate([&](Var v) -> int64_t {
      switch (v.kind) {
        case Var::Kind::kSymbol:
          return symbols_[v.index];
        case Var::Kind::kAxis:
          return axes_[v.index];
        case Var::Kind::kIndirect:
          return ValueAt(v.index, r).i;
      }
      return 0;
    });
  }

  const Cell& ValueAt(ScalarId id, int64_t r) const {
    return values_[id][reduces_[id] ? static_cast<size_t>(r) : 0];
  }

  bool IndexReduces(const DimVector& index) const {
    bool reduces = false;
    for (const SymExpr& e : index) {
      if (e.is_constant()) continue;
      e.VisitVars([&](Var v) {
        reduces |= v.kind == Var::Kind::kAxis && v.index >= outer_.size();
        reduces |= v.kind == Var::Kind::kIndirect && reduces_[v.index];
      });
    }
    return reduces;
  }

  void FindReducedNodes() {
    reduces_.resize(nest_.body.size());
    for (size_t i = 0; i < nest_.body.size(); ++i) {
      const ScalarNode& node = nest_.body[i];
      reduces_[i] = IndexReduces(node.index);
      for (const ScalarId arg : node.args) {
        if (reduces_[arg]) reduces_[i] = true;
      }
      if (node.op == ScalarOp::kReduce || node.op == ScalarOp::kReduceResult) {
        reduces_[i] = false;
      }
    }
  }

  absl::StatusOr<char*> Address(BufferId buffer, const DimVector& index,
                                int64_t r) {
    int64_t at = 0;
    for (size_t d = 0; d < index.size(); ++d) {
      const int64_t stride =
          buffers_[buffer].strides[d].Evaluate([&](Var v) -> int64_t {
            return v.kind == Var::Kind::kSymbol ? symbols_[v.index] : 0;
          });
      at += Eval(index[d], r) * stride;
    }
    if (memory_[buffer].first == nullptr || at < 0 ||
        at >= memory_[buffer].elements) {
      return absl::InternalError(absl::StrCat(
          buffers_[buffer].name, ": element ", at, " of ",
          memory_[buffer].elements, " in\n", ToText(nest_, buffers_, 0)));
    }
    return memory_[buffer].first + at * SizeInBytes(buffers_[buffer].dtype);
  }

  absl::Status OnePoint() {
    for (ScalarId i = 0; i < nest_.body.size(); ++i) {
      const ScalarNode& node = nest_.body[i];
      if (node.op == ScalarOp::kReduce) {
        FoldNode(i);
        continue;
      }
      if (node.op == ScalarOp::kReduceResult) {
        values_[i] = {
            totals_[node.args[0]][static_cast<size_t>(node.number.i)]};
        continue;
      }
      if (IsAlongRow(node.op)) {
        node.op == ScalarOp::kScan ? ScanNode(i) : RowNode(i);
        continue;
      }
      const int64_t points = reduces_[i] ? reduced_points_ : 1;
      values_[i].resize(static_cast<size_t>(points));
      for (int64_t r = 0; r < points; ++r) {
        if (reduces_[i]) SetDigits(r, reduced_, outer_.size());
        absl::StatusOr<Cell> cell = Compute(node, r);
        if (!cell.ok()) return cell.status();
        values_[i][static_cast<size_t>(r)] = *cell;
      }
    }
    return StoreAll();
  }

  void FoldNode(ScalarId id) {
    const ScalarNode& node = nest_.body[id];
    std::vector<Cell>& total = totals_[id];
    total = EmptyReduction(node.reduce, node.dtype);
    for (int64_t r = 0; r < reduced_points_; ++r) {
      std::vector<Cell> next;
      for (const ScalarId arg : node.args) next.push_back(ValueAt(arg, r));
      Combine(node.reduce, node.dtype, r == 0, next, total);
    }
    values_[id] = {total[0]};
  }

  // kSort and kTally, along the only reduced axis.
  void RowNode(ScalarId id) {
    const ScalarNode& node = nest_.body[id];
    reduces_[id] = true;
    std::vector<Cell> row;
    for (int64_t r = 0; r < reduced_points_; ++r)
      row.push_back(ValueAt(node.args[0], r));
    values_[id].clear();
    for (const int64_t number :
         node.op == ScalarOp::kTally
             ? Tallied(row)
             : Sorted(node.reduce, nest_.body[node.args[0]].dtype, row))
      values_[id].push_back({0, number});
  }

  void ScanNode(ScalarId id) {
    const ScalarNode& node = nest_.body[id];
    reduces_[id] = true;
    values_[id].resize(static_cast<size_t>(reduced_points_));
    std::vector<Cell> total;
    for (int64_t r = 0; r < reduced_points_; ++r) {
      const Cell next = ValueAt(node.args[0], r);
      Combine(node.reduce, node.dtype, r % reduced_.back() == 0, {&next, 1},
              total);
      values_[id][static_cast<size_t>(r)] = total[0];
    }
  }

  absl::StatusOr<Cell> Compute(const ScalarNode& node, int64_t r) {
    switch (node.op) {
      case ScalarOp::kConstant:
        return IsFloat(node.dtype) ? Cell{node.number.f, 0}
                                   : Cell{0, node.number.i};
      case ScalarOp::kIndex:
        return Cell{0, Eval(node.index[0], r)};
      case ScalarOp::kSeed:
        return Cell{0, 0};
      case ScalarOp::kRandom:
        return absl::UnimplementedError("random numbers");
      case ScalarOp::kLoad: {
        if (!node.args.empty() && ValueAt(node.args[0], r).i == 0) {
          return IsFloat(node.dtype) ? Cell{node.number.f, 0}
                                     : Cell{0, node.number.i};
        }
        absl::StatusOr<char*> at = Address(node.buffer, node.index, r);
        if (!at.ok()) return at.status();
        return ReadCell(node.dtype, *at);
      }
      default: {
        Cell args[3];
        for (size_t k = 0; k < node.args.size(); ++k) {
          args[k] = ValueAt(node.args[k], r);
        }
        if (IsIndexCheck(node.op)) return CheckedIndex(node, args);
        const DType dtype = nest_.body[node.args[0]].dtype;
        return ComputeScalar(node, dtype,
                             absl::MakeSpan(args, node.args.size()));
      }
    }
  }

  absl::Status StoreAll() {
    for (const struct Store& store : nest_.stores) {
      const bool reduces =
          reduces_[store.value] || IndexReduces(store.index) ||
          (store.mask != Store::kNoMask && reduces_[store.mask]);
      const DType dtype = buffers_[store.buffer].dtype;
      for (int64_t r = 0; r < (reduces ? reduced_points_ : 1); ++r) {
        if (reduces) SetDigits(r, reduced_, outer_.size());
        if (store.mask != Store::kNoMask && ValueAt(store.mask, r).i == 0) {
          continue;
        }
        absl::StatusOr<char*> at = Address(store.buffer, store.index, r);
        if (!at.ok()) return at.status();
        Cell value = ValueAt(store.value, r);
        if (store.mode != StoreMode::kSet)
          value = Updated(store.mode, ReadCell(dtype, *at), value);
        const std::string& asserted = buffers_[store.buffer].assertion;
        if (!asserted.empty() && value.i == 0)
          return absl::FailedPreconditionError(asserted);
        WriteCell(dtype, value, *at);
      }
    }
    return absl::OkStatus();
  }

  const LoopNest& nest_;
  const std::vector<Buffer>& buffers_;
  const std::vector<Memory>& memory_;
  const std::vector<int64_t>& symbols_;
  std::vector<int64_t> outer_, reduced_, axes_;
  int64_t reduced_points_ = 1;
  std::vector<bool> reduces_;              // has a value a reduced point
  std::vector<std::vector<Cell>> values_;  // of the current outer point
  absl::flat_hash_map<ScalarId, std::vector<Cell>> totals_;
};

}  // namespace kiln

#endif  // KILN_TESTS_SUPPORT_NEST_RUN_H_
