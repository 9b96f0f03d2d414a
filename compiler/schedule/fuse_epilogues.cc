#include "compiler/schedule/fuse_epilogues.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/graph/tensor_meta.h"
#include "compiler/loop/body_builder.h"
#include "compiler/loop/index_expr.h"
#include "compiler/loop/loop_transforms.h"
#include "compiler/loop/store_axes.h"
#include "compiler/schedule/dependencies.h"
#include "compiler/schedule/hint_bytes.h"
#include "compiler/schedule/library_epilogue.h"
#include "compiler/schedule/library_takes.h"

namespace kiln {
namespace {

// The gradient of a gelu takes longer in a product than in a pass over it if the result is
// small, if the product is bound by its multiplications, or if a sum of the result needs
// a pass anyway, unless the result is far larger than the L2 cache. Measured on an H100
// (bench/records/h100_contractions.md).
constexpr int64_t kDeepestSum = 2048;
constexpr int64_t kLeastBytes = 12'000'000;
constexpr int64_t kLeastBytesSummed = 100'000'000;

class EpilogueFuser {
 public:
  EpilogueFuser(LoopProgram& program, const Target& target)
      : program_(program), target_(target) {}

  int64_t Run() {
    int64_t fused = 0;
    CountUses();
    steps_.assign(std::make_move_iterator(program_.steps.begin()),
                  std::make_move_iterator(program_.steps.end()));
    for (size_t s = 0; s < steps_.size(); ++s) {
      // The fused contraction may take the next nest too. Together they count as one.
      size_t at = s;
      replaced_.clear();
      while (FuseNext(at)) {
      }
      if (replaced_.empty()) continue;
      if (IsWhole(std::get<Contraction>(*steps_[at]))) {
        ++fused;
      } else {
        for (auto& [step, was] : replaced_) steps_[step] = std::move(was);
      }
    }
    program_.steps.clear();
    for (std::optional<LoopStep>& step : steps_) {
      if (step.has_value()) program_.steps.push_back(*std::move(step));
    }
    return fused;
  }

 private:
  static constexpr size_t kNoStep = ~size_t{0};

  // The accesses to a buffer.
  struct Users {
    int readers = 0;
    int writers = 0;
    size_t reader = kNoStep;  // the last step that reads it
    bool is_output = false;
  };

  void CountUses() {
    users_.resize(program_.buffers.size());
    for (size_t s = 0; s < program_.steps.size(); ++s) {
      VisitStepBuffers(program_.steps[s], [&](BufferId b, bool writes) {
        if (writes) {
          ++users_[b].writers;
        } else {
          ++users_[b].readers;
          users_[b].reader = s;
        }
      });
    }
    for (const ProgramOutput& output : program_.outputs) {
      if (const auto* view = std::get_if<View>(&output.what))
        users_[view->buffer].is_output = true;
    }
  }

  // Fuses the contraction in step `at` with the nest that reads its result, if possible.
  // The fused contraction replaces the nest, and `at` becomes that step.
  bool FuseNext(size_t& at) {
    if (!steps_[at].has_value()) return false;
    const auto* contraction = std::get_if<Contraction>(&*steps_[at]);
    if (contraction == nullptr) return false;
    const BufferId result = contraction->result().view.buffer;
    const Users& users = users_[result];
    if (users.is_output || users.readers != 1 || users.writers != 1 ||
        program_.buffers[result].kind != BufferKind::kTemporary) {
      return false;
    }
    const size_t to = users.reader;
    const auto* nest = std::get_if<LoopNest>(&*steps_[to]);
    if (nest == nullptr || !IsPointwise(*nest)) return false;
    std::vector<ScalarNode> reads;
    std::optional<Contraction> whole = WithEpilogue(*contraction, *nest, reads);
    std::string ground;
    // What takes longest to find comes last.
    if (!whole.has_value() || !IsAllowed(*contraction, *whole, to) ||
        !LibraryTakes(*whole, program_.buffers, program_.shapes, target_,
                      ground) ||
        IsOverwrittenBetween(*contraction, at, to) ||
        !ReadInPlace(*contraction, reads)) {
      return false;
    }
    replaced_.try_emplace(at, std::move(steps_[at]));
    replaced_.try_emplace(to, std::move(steps_[to]));
    steps_[to] = *std::move(whole);
    steps_[at].reset();
    at = to;
    return true;
  }

  static bool IsPointwise(const LoopNest& nest) {
    return nest.stores.size() == 1 && !HasReduction(nest) &&
           nest.stores[0].mode == StoreMode::kSet &&
           nest.stores[0].mask == Store::kNoMask &&
           std::none_of(nest.body.begin(), nest.body.end(),
                        [](const ScalarNode& node) {
                          return IsReduction(node.op) || IsIndexCheck(node.op);
                        });
  }

  // Whether a library should do the epilogue. A matrix is not added to a product: that
  // costs as much as in a kernel of ours, which can be fused with other nests.
  bool IsAllowed(const Contraction& before, const Contraction& after,
                 size_t to) const {
    const auto had =
                   LibraryEpilogueOf(before, program_.buffers, program_.shapes),
               has =
                   LibraryEpilogueOf(after, program_.buffers, program_.shapes);
    if (!had.has_value() || !has.has_value()) return false;
    if (has->gelu_input.has_value()) return IsGeluGradientFaster(after, to);
    if (!has->bias.has_value() || had->bias.has_value()) return true;
    if (after.form == Contraction::Form::kConvolution)
      return target_.kind == TargetKind::kCpu || EpilogueOnCudnn(after);
    const DimVector& strides = has->bias->strides;
    return !after.is_batched() && strides[0].Is(0);
  }

  // `to`: the step of the nest, whose result is now that of the contraction.
  bool IsGeluGradientFaster(const Contraction& after, size_t to) const {
    const View& result = after.result().view;
    const SymExpr& depth = after.extents.back();
    if (!depth.is_constant() || depth.constant() > kDeepestSum) return false;
    bool summed = false;
    for (size_t s = to + 1; s < steps_.size(); ++s) {
      if (!steps_[s].has_value() ||
          !std::holds_alternative<LoopNest>(*steps_[s]))
        continue;
      VisitStepBuffers(*steps_[s], [&](BufferId b, bool writes) {
        summed = summed || (b == result.buffer && !writes);
      });
    }
    return HintBytes(result, program_.shapes) >=
           (summed ? kLeastBytesSummed : kLeastBytes);
  }

  // Whether the library computes it in one kernel. cuDNN does so if the epilogue ends
  // with a relu, and needs more kernels otherwise.
  bool IsWhole(const Contraction& fused) const {
    if (fused.form != Contraction::Form::kConvolution ||
        target_.kind == TargetKind::kCpu) {
      return true;
    }
    const auto has =
        LibraryEpilogueOf(fused, program_.buffers, program_.shapes);
    return has.has_value() && !has->activation.empty();
  }

  // Whether a step between the two writes what the contraction reads.
  bool IsOverwrittenBetween(const Contraction& contraction, size_t from,
                            size_t to) const {
    bool overwritten = false;
    VisitStepBuffers(contraction, [&](BufferId read, bool) {
      if (users_[read].writers == 0) return;
      for (size_t s = from + 1; s <= to; ++s) {
        if (!steps_[s].has_value()) continue;
        VisitStepBuffers(*steps_[s], [&](BufferId b, bool writes) {
          overwritten |= writes && b == read;
        });
      }
    });
    return overwritten;
  }

  // The contraction with the nest applied to its sum. None if the elements of the nest's
  // result do not lie where those of the contraction would. Adds to `reads` the nest's
  // loads of the sum, over the axes of the contraction.
  std::optional<Contraction> WithEpilogue(
      const Contraction& before, const LoopNest& nest,
      std::vector<ScalarNode>& reads) const {
    const Store& store = nest.stores[0];
    const Buffer& from = program_.buffers[before.result().view.buffer];
    const Buffer& to = program_.buffers[store.buffer];
    if (to.kind != BufferKind::kTemporary && to.kind != BufferKind::kOutput)
      return std::nullopt;
    if (to.dtype != from.dtype) return std::nullopt;
    std::optional<View> view = Moved(before.result().view, from, to);
    if (!view.has_value()) return std::nullopt;
    const DimVector place = PlaceIn(to, before);
    std::optional<std::vector<SymExpr>> axes = AxesAt(nest, store, to, place);
    if (!axes.has_value()) return std::nullopt;
    for (SymExpr& e : *axes)
      e = SimplifyIndex(e, before.extents, program_.shapes);

    Contraction after = before;
    if (!AppendBody(before, nest, *axes, after, reads)) return std::nullopt;
    after.result().view = *std::move(view);
    after.result().view.buffer = store.buffer;
    return after;
  }

  // Sets the body of `after` to that of `before`, followed by that of the nest at `axes`.
  // Returns false if it is easy to see that ReadInPlace will be false.
  bool AppendBody(const Contraction& before, const LoopNest& nest,
                  absl::Span<const SymExpr> axes, Contraction& after,
                  std::vector<ScalarNode>& reads) const {
    BodyBuilder body;
    const auto keep = [](const ScalarNode&) -> std::optional<ScalarId> {
      return std::nullopt;
    };
    const ScalarId sum = CopyBody(before.body, kSameAxes, Store::kNoMask, keep,
                                  body)[before.value];
    const auto replace =
        [&](const ScalarNode& load) -> std::optional<ScalarId> {
      if (load.buffer != before.result().view.buffer) return std::nullopt;
      reads.push_back(load);
      return sum;
    };
    after.value = CopyBody(nest.body, axes, Store::kNoMask, replace,
                           body)[nest.stores[0].value];
    const auto own = AddressOf(PlaceOf(before), before.result().view.strides);
    if (!own.has_value() ||
        std::any_of(reads.begin(), reads.end(), [&](const ScalarNode& load) {
          return DiffersOneStepOn(before, load, *own);
        })) {
      return false;
    }
    after.body = body.Take();
    for (ScalarNode& node : after.body) {
      for (SymExpr& e : node.index)
        e = SimplifyIndex(e, before.extents, program_.shapes);
    }
    DropDeadNodes(after);
    TakeOrigins(nest, after);
    return true;
  }

  // Whether a load reads another element than `own`, the offset that its point of the
  // contraction writes, one step along some axis from the first point. False also if that
  // is not known.
  bool DiffersOneStepOn(const Contraction& contraction, const ScalarNode& load,
                        const LinearForm& own) const {
    const SymExpr read = ElementAt(
        load.index, program_.buffers[contraction.result().view.buffer].strides);
    bool axes_only = own.offset.is_constant();
    read.VisitVars([&](Var v) { axes_only &= v.kind == Var::Kind::kAxis; });
    if (!axes_only) return false;
    for (uint32_t k = 0; k < contraction.extents.size(); ++k) {
      const SymExpr& extent = contraction.extents[k];
      const SymExpr step = own.CoefficientOf(k);
      if (!extent.is_constant() || extent.constant() < 2 || !step.is_constant())
        continue;
      const int64_t offset = read.Evaluate(
          [&](Var v) { return static_cast<int64_t>(v.index == k); });
      if (!(own.offset + step).Is(offset)) return true;
    }
    return false;
  }

  // Whether each of these loads of the contraction's sum reads the element that its point
  // of the contraction writes.
  bool ReadInPlace(const Contraction& contraction,
                   const std::vector<ScalarNode>& reads) const {
    const View& result = contraction.result().view;
    const auto own = AddressOf(PlaceOf(contraction), result.strides);
    return own.has_value() &&
           std::all_of(reads.begin(), reads.end(), [&](const ScalarNode& load) {
             const auto read =
                 AddressOf(load.index, program_.buffers[result.buffer].strides,
                           contraction.extents, program_.shapes);
             return load.args.empty() && read.has_value() && *read == *own;
           });
  }

  // The view of `to` that has the same elements as `view` has of `from`. None unless
  // `view` covers all of `from`, and the layouts are equal or both row-major.
  static std::optional<View> Moved(const View& view, const Buffer& from,
                                   const Buffer& to) {
    if (!(Product(view.sizes) == Product(from.sizes)) || !view.offset.Is(0) ||
        !(Product(from.sizes) == Product(to.sizes))) {
      return std::nullopt;
    }
    const bool same = view.sizes == to.sizes && view.strides == to.strides;
    if (!same && (view.strides != ContiguousStrides(view.sizes) ||
                  to.strides != ContiguousStrides(to.sizes))) {
      return std::nullopt;
    }
    return view;
  }

  // The index in the result's view of the element that a point of the contraction
  // writes. It is 0 along an axis of one point, as in nests.
  static DimVector PlaceOf(const Contraction& contraction) {
    DimVector place;
    for (const SymExpr& e : contraction.result().index) {
      place.push_back(e.Substitute([&](Var v) {
        const bool one =
            v.kind == Var::Kind::kAxis && contraction.extents[v.index].Is(1);
        return one ? SymExpr(0) : SymExpr::Of(v);
      }));
    }
    return place;
  }

  // The index of the same element in `to`.
  DimVector PlaceIn(const Buffer& to, const Contraction& contraction) const {
    const View& view = contraction.result().view;
    const DimVector place = PlaceOf(contraction);
    if (view.sizes == to.sizes) return place;
    return ReshapeIndex(place, view.sizes, to.sizes, program_.shapes);
  }

  LoopProgram& program_;
  const Target& target_;
  std::vector<Users> users_;
  std::vector<std::optional<LoopStep>> steps_;
  // The steps that fusions with the current contraction replaced.
  std::map<size_t, std::optional<LoopStep>> replaced_;
};

}  // namespace

int64_t FuseEpilogues(LoopProgram& program, const Target& target) {
  return EpilogueFuser(program, target).Run();
}

}  // namespace kiln
