#include "runtime/extern_kernels/dnnl_bf16_matmul.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "proto/base/status.h"
#include "runtime/extern_kernels/dnnl_primitive.h"
#include "runtime/extern_kernels/half_float.h"
#include "runtime/extern_kernels/matmul_finish.h"
#include "runtime/extern_kernels/matmul_pieces.h"
#include "runtime/extern_kernels/matrix_form.h"

namespace kiln {
namespace {

using Piece = MatmulPieces::Piece;

// The product of one shape of piece, into dense rows of f32.
class PieceProduct {
 public:
  static absl::StatusOr<std::shared_ptr<const PieceProduct>> Create(
      const std::shared_ptr<const DnnlLibrary>& library,
      const BlasMatmul& matmul, int64_t rows, int64_t columns) {
    std::shared_ptr<PieceProduct> made(new PieceProduct());
    made->rows_ = rows;
    made->columns_ = columns;
    const auto describe = [&](int64_t height, int64_t width,
                              const BlasMatrix& matrix, dnnl_data_type_t type,
                              dnnl_memory_desc_t* out) {
      const dnnl_dims_t sizes = {height, width};
      const dnnl_dims_t strides = {matrix.transposed ? 1 : matrix.leading,
                                   matrix.transposed ? matrix.leading : 1};
      return DnnlLibrary::Check(library->dnnl_memory_desc_init_by_strides(
                                    out, 2, sizes, type, strides),
                                "memory_desc_init_by_strides");
    };
    const int64_t k = matmul.problem.k;
    RETURN_IF_ERROR(describe(rows, k, matmul.a, dnnl_bf16, &made->a_));
    RETURN_IF_ERROR(describe(k, columns, matmul.b, dnnl_bf16, &made->b_));
    RETURN_IF_ERROR(
        describe(rows, columns, {false, columns}, dnnl_f32, &made->out_));
    dnnl_matmul_desc_t what;
    RETURN_IF_ERROR(DnnlLibrary::Check(
        library->dnnl_matmul_desc_init(&what, &made->a_, &made->b_, nullptr,
                                       &made->out_),
        "matmul_desc_init"));
    ASSIGN_OR_RETURN(made->primitive_, DnnlPrimitive::Create(library, &what));
    return std::shared_ptr<const PieceProduct>(std::move(made));
  }

  bool IsFor(const Piece& piece) const {
    return piece.rows == rows_ && piece.columns == columns_;
  }

  // Of the result and, after it, what the library wants to write to.
  int64_t room_bytes() const {
    return result_bytes() +
           primitive_->Bytes(primitive_->Layout(DNNL_ARG_SCRATCHPAD)) + 64;
  }

  // The result stands at the start of `room`.
  absl::Status Run(const uint16_t* a, const uint16_t* b, char* room) const {
    const dnnl_memory_desc_t& scratch = primitive_->Layout(DNNL_ARG_SCRATCHPAD);
    return primitive_->Execute(
        {{DNNL_ARG_SRC, &a_, const_cast<uint16_t*>(a)},
         {DNNL_ARG_WEIGHTS, &b_, const_cast<uint16_t*>(b)},
         {DNNL_ARG_DST, &out_, room},
         {DNNL_ARG_SCRATCHPAD, &scratch, room + result_bytes()}});
  }

 private:
  PieceProduct() = default;

  int64_t result_bytes() const {
    const int64_t bytes = rows_ * columns_ * SizeInBytes(DType::kFloat32);
    return (bytes + 63) / 64 * 64;
  }

  int64_t rows_ = 0;
  int64_t columns_ = 0;
  dnnl_memory_desc_t a_;
  dnnl_memory_desc_t b_;
  dnnl_memory_desc_t out_;
  std::unique_ptr<const DnnlPrimitive> primitive_;
};

class DnnlBf16Matmul final : public PreparedCall {
 public:
  DnnlBf16Matmul(const BlasMatmul& matmul,
                 std::shared_ptr<const DnnlLibrary> library, CpuDevice& device)
      : blas_(matmul),
        p_(blas_.problem),
        library_(std::move(library)),
        device_(device),
        pieces_(p_, device.threads().threads()) {}

  absl::Status Prepare() {
    const DnnlLibrary::SingleThread alone(*library_);
    for (int64_t i = 0; i < pieces_.count() && p_.k > 0; ++i) {
      const Piece piece = pieces_[i];
      if (ProductOf(piece) != nullptr) continue;
      ASSIGN_OR_RETURN(
          auto product,
          PieceProduct::Create(library_, blas_, piece.rows, piece.columns));
      products_.push_back(std::move(product));
    }
    return absl::OkStatus();
  }

  absl::Status Run(const ExternBuffers& buffers, Stream) const override {
    std::vector<absl::Status> outcomes(pieces_.count());
    Work work{this,
              static_cast<const uint16_t*>(buffers.operand[0]),
              static_cast<const uint16_t*>(buffers.operand[1]),
              static_cast<const uint16_t*>(buffers.operand[2]),
              static_cast<uint16_t*>(buffers.operand[3]),
              outcomes.data()};
    if (blas_.swapped) std::swap(work.a, work.b);
    device_.threads().ParallelFor(
        pieces_.count(), pieces_.grain(),
        [](void* context, int64_t begin, int64_t end) {
          const Work& work = *static_cast<const Work*>(context);
          const DnnlLibrary::SingleThread alone(*work.self->library_);
          for (int64_t i = begin; i < end; ++i) {
            work.outcomes[i] = work.self->RunPiece(work, work.self->pieces_[i]);
          }
        },
        &work);
    for (const absl::Status& outcome : outcomes) RETURN_IF_ERROR(outcome);
    return absl::OkStatus();
  }

  absl::string_view library() const override { return "oneDNN bf16"; }

 private:
  struct Work {
    const DnnlBf16Matmul* self;
    const uint16_t* a;
    const uint16_t* b;
    const uint16_t* bias;
    uint16_t* out;
    absl::Status* outcomes;
  };

  // Null: none yet. There are four shapes of piece at most.
  const PieceProduct* ProductOf(const Piece& piece) const {
    for (const auto& product : products_) {
      if (product->IsFor(piece)) return product.get();
    }
    return nullptr;
  }

  absl::Status RunPiece(const Work& work, const Piece& piece) const {
    const PieceProduct* const product = ProductOf(piece);
    const int64_t bytes = product == nullptr ? piece.rows * piece.columns *
                                                   SizeInBytes(DType::kFloat32)
                                             : product->room_bytes();
    ASSIGN_OR_RETURN(void* const room,
                     device_.allocator().Allocate(bytes, nullptr));
    absl::Status status;
    if (product == nullptr) {  // k = 0: the sum of nothing
      std::fill_n(static_cast<float*>(room), piece.rows * piece.columns, 0.0f);
    } else {
      status = product->Run(
          work.a + piece.batch * p_.a.batch + piece.row * p_.a.row,
          work.b + piece.batch * p_.b.batch + piece.column * p_.b.column,
          static_cast<char*>(room));
    }
    if (status.ok()) Finish(work, piece, static_cast<float*>(room));
    device_.allocator().Free(room, bytes, nullptr);
    return status;
  }

  // Scale, bias, activation, and the one rounding.
  void Finish(const Work& work, const Piece& piece, float* product) const {
    const float alpha = static_cast<float>(p_.alpha);
    const float beta = static_cast<float>(p_.beta);
    for (int64_t i = 0; i < piece.rows; ++i) {
      float* const row = product + i * piece.columns;
      if (alpha != 1) {
        for (int64_t j = 0; j < piece.columns; ++j) row[j] *= alpha;
      }
      if (p_.has_bias) {
        const uint16_t* const bias = work.bias + piece.batch * p_.bias.batch +
                                     (piece.row + i) * p_.bias.row +
                                     piece.column * p_.bias.column;
        for (int64_t j = 0; j < piece.columns; ++j) {
          row[j] += beta * FloatOfBFloat16(bias[j * p_.bias.column]);
        }
      }
      Activate(p_.activation, row, piece.columns);
      uint16_t* const out = work.out + piece.batch * p_.out.batch +
                            (piece.row + i) * p_.out.row +
                            piece.column * p_.out.column;
      for (int64_t j = 0; j < piece.columns; ++j) {
        out[j * p_.out.column] = BFloat16Of(row[j]);
      }
    }
  }

  const BlasMatmul blas_;
  const MatmulProblem& p_;  // of blas_
  const std::shared_ptr<const DnnlLibrary> library_;
  CpuDevice& device_;
  const MatmulPieces pieces_;
  std::vector<std::shared_ptr<const PieceProduct>> products_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const PreparedCall>> PrepareDnnlBf16Matmul(
    const MatmulProblem& problem, std::shared_ptr<const DnnlLibrary> library,
    CpuDevice& device) {
  const std::optional<BlasMatmul> blas = ToBlas(problem);
  if (problem.dtype != DType::kBFloat16 || !blas.has_value()) {
    return MakeError(ErrorReason::kUnsupportedOp,
                     Describe(problem) + ": not one for oneDNN's bf16 matmul");
  }
  auto call =
      std::make_shared<DnnlBf16Matmul>(*blas, std::move(library), device);
  RETURN_IF_ERROR(Annotate(call->Prepare(), Describe(problem)));
  return std::shared_ptr<const PreparedCall>(std::move(call));
}

}  // namespace kiln
