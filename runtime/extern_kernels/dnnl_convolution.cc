#include "runtime/extern_kernels/dnnl_convolution.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"
#include "runtime/extern_kernels/convolution_steps.h"
#include "runtime/extern_kernels/cut_convolution.h"
#include "runtime/extern_kernels/dnnl_slab.h"
#include "runtime/extern_kernels/read_extern_call.h"

namespace kiln {
namespace {

using Wanted = ConvolutionProblem::Wanted;

class DnnlConvolution final : public PreparedCall {
 public:
  DnnlConvolution(const ConvolutionProblem& problem,
                  std::shared_ptr<const DnnlLibrary> library, CpuDevice& device)
      : p_(InRows(problem)), library_(std::move(library)), device_(device) {}

  absl::Status Prepare() {
    const DnnlLibrary::SingleThread alone(*library_);
    const int64_t threads = device_.threads().threads();
    const std::vector<ConvolutionCut> cuts = CutConvolution(p_, threads);
    for (const ConvolutionCut& cut : cuts) {
      Piece piece{cut.starts, nullptr};
      for (size_t i = 0; i < pieces_.size(); ++i) {
        if (cuts[i].problem == cut.problem) piece.slab = pieces_[i].slab;
      }
      if (piece.slab == nullptr) {
        ASSIGN_OR_RETURN(
            piece.slab,
            DnnlSlab::Create(cut.problem, cut.most_images, library_));
      }
      PlaceWeights(piece);
      for (int64_t step = 0; step < piece.slab->steps(); ++step) {
        steps_.push_back({pieces_.size(), step});
      }
      pieces_.push_back(std::move(piece));
    }
    return absl::OkStatus();
  }

  absl::Status Run(const ExternBuffers& buffers, Stream) const override {
    Room own(device_.allocator());
    void* weights = buffers.prepared;
    if (weights == nullptr && weights_bytes_ > 0) {
      RETURN_IF_ERROR(own.Take(weights_bytes_));
      weights = own.data();
      RETURN_IF_ERROR(PrepareOperand(buffers, weights));
    }
    const Work work{this, &buffers, static_cast<char*>(weights)};
    return ForEach(steps_.size(), work, &DnnlConvolution::RunStep);
  }

  OperandForm operand_form() const override {
    if (weights_bytes_ == 0) return {};
    return {kWeightsOperand, weights_bytes_, weights_layout_};
  }

  absl::Status PrepareOperand(const ExternBuffers& buffers,
                              void* to) const override {
    library_->CountWeightReorder();
    const Work work{this, &buffers, static_cast<char*>(to)};
    return ForEach(weight_parts_.size(), work, &DnnlConvolution::RunWeights);
  }

  absl::string_view library() const override { return "oneDNN"; }

 private:
  struct Piece {
    std::array<int64_t, 5> starts;  // in elements
    std::shared_ptr<const DnnlSlab> slab;
    int64_t weights_start = 0;  // of the prepared ones, in bytes
  };
  // A part of the weights, or a step, of a piece's slab.
  struct Step {
    size_t piece;
    int64_t number;
  };
  struct Work {
    const DnnlConvolution* self;
    const ExternBuffers* buffers;
    char* weights;
  };
  using RunOne = absl::Status (DnnlConvolution::*)(const Work&, int64_t) const;

  // Where pieces want the same weights laid out alike, one copy serves them.
  void PlaceWeights(Piece& piece) {
    const int64_t start = piece.starts[kWeightsOperand];
    const std::string layout = piece.slab->WeightsLayout();
    for (const Piece& other : pieces_) {
      if (other.starts[kWeightsOperand] == start &&
          other.slab->WeightsLayout() == layout) {
        piece.weights_start = other.weights_start;
        return;
      }
    }
    piece.weights_start = weights_bytes_;
    weights_bytes_ += piece.slab->weights_bytes();
    absl::StrAppend(&weights_layout_, start, ":", layout);
    for (int64_t part = 0; part < piece.slab->weight_parts(); ++part) {
      weight_parts_.push_back({pieces_.size(), part});
    }
  }

  // Memory of the device, given back at the end.
  class Room {
   public:
    explicit Room(Allocator& allocator) : allocator_(allocator) {}
    ~Room() {
      if (data_ != nullptr) allocator_.Free(data_, bytes_, nullptr);
    }
    Room(const Room&) = delete;
    Room& operator=(const Room&) = delete;

    // `bytes` may be 0.
    absl::Status Take(int64_t bytes) {
      if (bytes == 0) return absl::OkStatus();
      ASSIGN_OR_RETURN(data_, allocator_.Allocate(bytes, nullptr));
      bytes_ = bytes;
      return absl::OkStatus();
    }
    char* data() const { return static_cast<char*>(data_); }

   private:
    Allocator& allocator_;
    void* data_ = nullptr;
    int64_t bytes_ = 0;
  };

  // Runs `run` for 0, 1, ... count - 1 on the device's threads, each of which takes one
  // after another: a step is worth more than its taking. The first error of the list.
  absl::Status ForEach(size_t count, const Work& work, RunOne run) const {
    std::vector<absl::Status> outcomes(count);
    struct Loop {
      const Work* work;
      RunOne run;
      std::vector<absl::Status>& outcomes;
      std::atomic<size_t> next = 0;
    } loop{&work, run, outcomes};
    device_.threads().ParallelFor(
        std::min<int64_t>(count, device_.threads().threads()), 1,
        [](void* context, int64_t, int64_t) {
          Loop& loop = *static_cast<Loop*>(context);
          const DnnlConvolution& self = *loop.work->self;
          const DnnlLibrary::SingleThread alone(*self.library_);
          for (size_t i = loop.next++; i < loop.outcomes.size();
               i = loop.next++) {
            loop.outcomes[i] =
                (self.*loop.run)(*loop.work, static_cast<int64_t>(i));
          }
        },
        &loop);
    for (const absl::Status& outcome : outcomes) RETURN_IF_ERROR(outcome);
    return absl::OkStatus();
  }

  DnnlSlab::Operands OperandsOf(const Piece& piece,
                                const ExternBuffers& buffers) const {
    DnnlSlab::Operands operands;
    for (size_t i = 0; i < operands.size(); ++i) {
      char* const base = static_cast<char*>(buffers.operand[i]);
      operands[i] = base == nullptr
                        ? nullptr
                        : base + piece.starts[i] * SizeInBytes(p_.dtype);
    }
    return operands;
  }

  absl::Status RunWeights(const Work& work, int64_t i) const {
    const auto [at, part] = weight_parts_[i];
    const Piece& piece = pieces_[at];
    return piece.slab->PrepareWeights(part, OperandsOf(piece, *work.buffers),
                                      work.weights + piece.weights_start);
  }

  absl::Status RunStep(const Work& work, int64_t i) const {
    const Piece& piece = pieces_[steps_[i].piece];
    Room room(device_.allocator());
    RETURN_IF_ERROR(room.Take(piece.slab->room_bytes()));
    return piece.slab->RunStep(steps_[i].number,
                               OperandsOf(piece, *work.buffers),
                               work.weights + piece.weights_start, room.data());
  }

  const ConvolutionProblem p_;
  const std::shared_ptr<const DnnlLibrary> library_;
  CpuDevice& device_;
  std::vector<Piece> pieces_;
  std::vector<Step> weight_parts_;  // of all pieces
  std::vector<Step> steps_;
  int64_t weights_bytes_ = 0;
  std::string weights_layout_;
};

// Whether what is added to a result lies as that does.
bool IsAddedInPlace(const ConvolutionProblem& p) {
  bool in_place =
      p.wanted == Wanted::kResult &&
      (p.batch == 1 || p.added_strides[0] == p.result_strides[0]) &&
      (p.result_channels == 1 || p.added_strides[1] == p.result_strides[1]);
  for (int i = 0; i < p.spatial; ++i) {
    in_place = in_place && (p.result[i] == 1 ||
                            p.added_strides[2 + i] == p.result_strides[2 + i]);
  }
  return in_place;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const PreparedCall>> PrepareDnnlConvolution(
    const ConvolutionProblem& problem,
    std::shared_ptr<const DnnlLibrary> library, CpuDevice& device) {
  const bool wide = problem.dtype == DType::kFloat32;
  const bool takes =
      (wide || problem.dtype == DType::kBFloat16) &&
      (!problem.has_added || (wide && IsAddedInPlace(problem))) &&
      (!problem.has_bias || (problem.bias_stride == 1 &&
                             (wide || problem.wanted == Wanted::kResult))) &&
      (wide || problem.activation == Activation::kNone);
  if (!takes) {
    return MakeError(ErrorReason::kUnsupportedOp,
                     Describe(problem) + ": not one for oneDNN");
  }
  auto call =
      std::make_shared<DnnlConvolution>(problem, std::move(library), device);
  RETURN_IF_ERROR(Annotate(call->Prepare(), Describe(problem)));
  return std::shared_ptr<const PreparedCall>(std::move(call));
}

}  // namespace kiln
