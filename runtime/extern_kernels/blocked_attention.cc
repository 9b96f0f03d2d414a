#include "runtime/extern_kernels/blocked_attention.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <new>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status.h"
#include "runtime/extern_kernels/attention_blocks.h"
#include "runtime/extern_kernels/attention_loops.h"

namespace kiln {
namespace {

// The most queries and keys at a time: their scores take 128 KiB, and what they are of
// as much. Fewer queries of a causal mask leave out more of what they do not see.
constexpr int64_t kMostRows = 128;
constexpr int64_t kMostCausalRows = 64;
constexpr int64_t kMostColumns = 256;
constexpr float kNothing = -std::numeric_limits<float>::infinity();

int64_t BlocksOf(int64_t length, int64_t block) {
  return (length + block - 1) / block;
}

// The length of blocks as even as they can be, at least 1.
int64_t EvenBlock(int64_t length, int64_t most) {
  const int64_t blocks = std::max<int64_t>(1, BlocksOf(length, most));
  return std::max<int64_t>(1, BlocksOf(length, blocks));
}

// The arrays of one call.
struct Arrays {
  HeadArray query, key, value, out, logsumexp, bias;
  HeadArray grad, query_grad, key_grad, value_grad;
};

Arrays ArraysOf(const AttentionProblem& p, const ExternBuffers& buffers) {
  const auto array = [&](int operand, const AttentionProblem::Strides& strides,
                         int64_t columns, DType dtype) {
    return HeadArray{buffers.operand[operand], dtype, strides, columns};
  };
  const int64_t e = p.width, v = p.value_width;
  return {array(kQueryOperand, p.query, e, p.dtype),
          array(kKeyOperand, p.key, e, p.dtype),
          array(kValueOperand, p.value, v, p.dtype),
          array(kOutOperand, p.out, v, p.dtype),
          array(kLogsumexpOperand, p.logsumexp, 1, DType::kFloat32),
          array(kAttentionBiasOperand, p.bias, p.keys, p.bias_dtype),
          array(kGradOperand, p.grad, v, p.dtype),
          array(kQueryGradOperand, p.query_grad, e, p.dtype),
          array(kKeyGradOperand, p.key_grad, e, p.dtype),
          array(kValueGradOperand, p.value_grad, v, p.dtype)};
}

// Memory of one thread, cut into pieces.
class Room {
 public:
  explicit Room(int64_t floats)
      : memory_(new (std::nothrow) float[static_cast<size_t>(floats)]) {}

  bool ok() const { return memory_ != nullptr; }
  void Empty() { taken_ = 0; }
  float* Take(int64_t floats) {
    float* const piece = memory_.get() + taken_;
    taken_ += floats;
    return piece;
  }

 private:
  std::unique_ptr<float[]> memory_;
  int64_t taken_ = 0;
};

class BlockedAttention final : public PreparedCall {
 public:
  BlockedAttention(const AttentionProblem& problem,
                   std::shared_ptr<const DnnlLibrary> library,
                   ThreadPool& threads)
      : p_(problem),
        rows_(EvenBlock(problem.queries,
                        problem.causal == AttentionProblem::Causal::kNone
                            ? kMostRows
                            : kMostCausalRows)),
        columns_(EvenBlock(problem.keys, kMostColumns)),
        library_(std::move(library)),
        threads_(threads) {}

  absl::Status Run(const ExternBuffers& buffers, Stream) const override {
    Work work{this, ArraysOf(p_, buffers)};
    const int64_t pieces =
        p_.backward ? p_.batch * p_.key_heads
                    : p_.batch * p_.heads * BlocksOf(p_.queries, rows_);
    threads_.ParallelFor(
        pieces, 1,
        [](void* context, int64_t begin, int64_t end) {
          Work& work = *static_cast<Work*>(context);
          work.self->RunPieces(work, begin, end);
        },
        &work);
    if (work.lacks_memory.load()) {
      return absl::ResourceExhaustedError(
          Describe(p_) + ": no memory for what a thread needs");
    }
    return DnnlLibrary::Check(work.failed.load(), "sgemm");
  }

  absl::string_view library() const override {
    return library_ != nullptr ? "own blocks, oneDNN" : "own blocks";
  }

 private:
  struct Work {
    const BlockedAttention* self;
    const Arrays arrays;
    std::atomic<dnnl_status_t> failed{dnnl_success};
    std::atomic<bool> lacks_memory{false};
  };
  // Rows of queries and columns of keys that meet.
  struct Meeting {
    int64_t batch, head, row, rows, column, columns;
  };

  int64_t sharing() const { return p_.heads / p_.key_heads; }
  int64_t Shift() const {
    return p_.causal == AttentionProblem::Causal::kBottomRight
               ? p_.keys - p_.queries
               : 0;
  }
  // The columns that a row sees: [first, end), which may be none.
  int64_t FirstSeen(int64_t row) const {
    if (p_.window == 0) return 0;
    return std::max<int64_t>(0, row + Shift() - p_.window + 1);
  }
  int64_t EndSeen(int64_t row) const {
    if (p_.causal == AttentionProblem::Causal::kNone) return p_.keys;
    return std::clamp<int64_t>(row + Shift() + 1, 0, p_.keys);
  }

  void RunPieces(Work& work, int64_t begin, int64_t end) const {
    std::optional<DnnlLibrary::SingleThread> alone;
    if (library_ != nullptr) alone.emplace(*library_);
    // What Forward or Backward takes.
    const int64_t e = p_.width, v = p_.value_width;
    const int64_t forward = rows_ * (columns_ + e + v) + columns_ * (e + v);
    const int64_t backward = 2 * rows_ * columns_ + rows_ * (e + 2 * v) +
                             2 * columns_ * (e + v) +
                             sharing() * p_.queries * (e + 1);
    Room room(p_.backward ? backward : forward);
    if (!room.ok()) {
      work.lacks_memory.store(true);
      return;
    }
    for (int64_t i = begin; i < end; ++i) {
      room.Empty();
      if (p_.backward) {
        Backward(work, i / p_.key_heads, i % p_.key_heads, room);
      } else {
        const int64_t count = BlocksOf(p_.queries, rows_);
        Forward(work, i / count / p_.heads, i / count % p_.heads,
                i % count * rows_, room);
      }
    }
  }

  void Multiply(Work& work, const FloatBlock& a, const FloatBlock& b,
                float scale, bool adds, float* out, int64_t leading) const {
    const dnnl_status_t status =
        MultiplyBlocks(library_.get(), a, b, scale, adds, out, leading);
    if (status != dnnl_success) work.failed.store(status);
  }

  // scores[rows, columns_], masked.
  void Scores(Work& work, const Meeting& at, const FloatBlock& query,
              const FloatBlock& key, float* scores) const {
    Multiply(work, query, key.Transposed(), static_cast<float>(p_.scale), false,
             scores, columns_);
    for (int64_t i = 0; i < at.rows; ++i) {
      float* const row = scores + i * columns_;
      const int64_t m = at.row + i;
      if (p_.has_bias)
        work.arrays.bias.AddTo(row, at.batch, at.head, m, at.column,
                               at.columns);
      const auto within = [&](int64_t column) {
        return std::clamp<int64_t>(column - at.column, 0, at.columns);
      };
      std::fill(row, row + within(FirstSeen(m)), kNothing);
      std::fill(row + within(EndSeen(m)), row + at.columns, kNothing);
    }
  }

  void Forward(Work& work, int64_t batch, int64_t head, int64_t row,
               Room& room) const {
    const Arrays& arrays = work.arrays;
    const int64_t rows = std::min(rows_, p_.queries - row), v = p_.value_width;
    float* const scores = room.Take(rows_ * columns_);
    float* const sums = room.Take(rows_ * v);
    float* const key_room = room.Take(columns_ * p_.width);
    float* const value_room = room.Take(columns_ * v);
    RowSoftmax softmax[kMostRows];
    const FloatBlock query =
        arrays.query.Read(batch, head, row, rows, room.Take(rows_ * p_.width));
    const int64_t first = FirstSeen(row), end = EndSeen(row + rows - 1);
    if (first >= end) {
      std::fill_n(sums, rows * v, 0.0f);
      std::fill_n(softmax, rows, RowSoftmax{kNothing, 0});
    }
    for (int64_t n = first; n < end; n += columns_) {
      const Meeting at = {batch, head, row,
                          rows,  n,    std::min(columns_, end - n)};
      const int64_t x = head / sharing();
      Scores(work, at, query,
             arrays.key.Read(batch, x, n, at.columns, key_room), scores);
      if (n == first) {
        StartRows(scores, rows, at.columns, columns_, softmax);
      } else {
        ContinueRows(scores, rows, at.columns, columns_, softmax, sums, v);
      }
      Multiply(work, {scores, rows, at.columns, columns_},
               arrays.value.Read(batch, x, n, at.columns, value_room), 1,
               n > first, sums, v);
    }
    for (int64_t i = 0; i < rows; ++i) {
      const auto [top, total] = softmax[i];
      const bool blind = total == 0;
      if (!blind) ScaleBy(1 / total, sums + i * v, v);
      const float logarithm = blind ? 0 : top + std::log(total);
      arrays.logsumexp.Write(batch, head, row + i, 1, &logarithm);
    }
    arrays.out.Write(batch, head, row, rows, sums);
  }

  // What the backward of a head of keys holds.
  struct Held {
    float *query_grads, *deltas;              // of all its heads of queries
    float *key_grads, *value_grads;           // of the columns at hand
    float *p, *dp;                            // [rows_, columns_]
    float *query, *key, *value, *grad, *out;  // room for what is widened
  };

  void Backward(Work& work, int64_t batch, int64_t x, Room& room) const {
    const int64_t heads = sharing(), e = p_.width, v = p_.value_width;
    Held held;
    held.query_grads = room.Take(heads * p_.queries * e);
    held.deltas = room.Take(heads * p_.queries);
    held.p = room.Take(rows_ * columns_);
    held.dp = room.Take(rows_ * columns_);
    held.query = room.Take(rows_ * e);
    held.grad = room.Take(rows_ * v);
    held.out = room.Take(rows_ * v);
    for (float** piece : {&held.key, &held.key_grads})
      *piece = room.Take(columns_ * e);
    for (float** piece : {&held.value, &held.value_grads})
      *piece = room.Take(columns_ * v);
    std::fill_n(held.query_grads, heads * p_.queries * e, 0.0f);
    for (int64_t g = 0; g < heads; ++g)
      PutDeltas(work.arrays, batch, x * heads + g, held,
                held.deltas + g * p_.queries);
    for (int64_t n = 0; n < p_.keys; n += columns_) {
      const int64_t columns = std::min(columns_, p_.keys - n);
      std::fill_n(held.key_grads, columns * e, 0.0f);
      std::fill_n(held.value_grads, columns * v, 0.0f);
      for (int64_t g = 0; g < heads; ++g) {
        for (int64_t m = 0; m < p_.queries; m += rows_) {
          const int64_t rows = std::min(rows_, p_.queries - m);
          if (EndSeen(m + rows - 1) <= n || FirstSeen(m) >= n + columns)
            continue;
          AddGradients(work, {batch, x * heads + g, m, rows, n, columns}, x, g,
                       held);
        }
      }
      work.arrays.key_grad.Write(batch, x, n, columns, held.key_grads);
      work.arrays.value_grad.Write(batch, x, n, columns, held.value_grads);
    }
    for (int64_t g = 0; g < heads; ++g) {
      work.arrays.query_grad.Write(batch, x * heads + g, 0, p_.queries,
                                   held.query_grads + g * p_.queries * e);
    }
  }

  // sum(grad * out) of each row.
  void PutDeltas(const Arrays& arrays, int64_t batch, int64_t head,
                 const Held& held, float* deltas) const {
    for (int64_t m = 0; m < p_.queries; m += rows_) {
      const int64_t rows = std::min(rows_, p_.queries - m);
      const FloatBlock grad = arrays.grad.Read(batch, head, m, rows, held.grad);
      const FloatBlock out = arrays.out.Read(batch, head, m, rows, held.out);
      for (int64_t i = 0; i < rows; ++i) {
        deltas[m + i] = static_cast<float>(DotOf(grad.data + i * grad.leading,
                                                 out.data + i * out.leading,
                                                 p_.value_width));
      }
    }
  }

  // P = e^(scores - logsumexp), dS = P * (grad @ value^T - delta) * scale.
  void AddGradients(Work& work, const Meeting& at, int64_t x, int64_t g,
                    const Held& held) const {
    const Arrays& arrays = work.arrays;
    const FloatBlock query =
        arrays.query.Read(at.batch, at.head, at.row, at.rows, held.query);
    const FloatBlock grad =
        arrays.grad.Read(at.batch, at.head, at.row, at.rows, held.grad);
    const FloatBlock key =
        arrays.key.Read(at.batch, x, at.column, at.columns, held.key);
    const FloatBlock value =
        arrays.value.Read(at.batch, x, at.column, at.columns, held.value);
    Scores(work, at, query, key, held.p);
    Multiply(work, grad, value.Transposed(), 1, false, held.dp, columns_);
    for (int64_t i = 0; i < at.rows; ++i) {
      const int64_t m = at.row + i;
      Exponentiate(held.p + i * columns_, at.columns,
                   arrays.logsumexp.At(at.batch, at.head, m, 0));
      ScoreGradients(held.p + i * columns_, held.dp + i * columns_, at.columns,
                     held.deltas[g * p_.queries + m],
                     static_cast<float>(p_.scale));
    }
    const FloatBlock p = {held.p, at.rows, at.columns, columns_};
    const FloatBlock ds = {held.dp, at.rows, at.columns, columns_};
    Multiply(work, p.Transposed(), grad, 1, true, held.value_grads,
             p_.value_width);
    Multiply(work, ds.Transposed(), query, 1, true, held.key_grads, p_.width);
    Multiply(work, ds, key, 1, true,
             held.query_grads + (g * p_.queries + at.row) * p_.width, p_.width);
  }

  const AttentionProblem p_;
  const int64_t rows_, columns_;  // of a block
  const std::shared_ptr<const DnnlLibrary>
      library_;  // null: not on the machine
  ThreadPool& threads_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const PreparedCall>> PrepareBlockedAttention(
    const AttentionProblem& problem, std::shared_ptr<const DnnlLibrary> library,
    ThreadPool& threads) {
  if (problem.dtype != DType::kFloat32 && !IsHalf(problem.dtype)) {
    return MakeError(ErrorReason::kUnsupportedOp,
                     Describe(problem) + ": expected f32 or a half type");
  }
  if (problem.dropout > 0) {
    return MakeError(ErrorReason::kUnsupportedOp,
                     Describe(problem) + ": dropout on the CPU");
  }
  return std::make_shared<BlockedAttention>(problem, std::move(library),
                                            threads);
}

}  // namespace kiln
