#ifndef KILN_RUNTIME_EXTERN_KERNELS_EXTERN_KERNEL_H_
#define KILN_RUNTIME_EXTERN_KERNELS_EXTERN_KERNEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "proto/base/dtype.h"
#include "runtime/device.h"

// The library calls a plan may make (ExternStep), and what a library must offer
// to serve them.
//
//   name       inputs, outputs                          attributes
//   mm         a[M,K], b[K,N][, x[M,N]]; out[M,N]       activation
//   addmm      bias[M,N], a[M,K], b[K,N]; out[M,N]      alpha, beta, activation
//   bmm        a[B,M,K], b[B,K,N]; out[B,M,N]           activation
//   baddbmm    bias[B,M,N], a[B,M,K], b[B,K,N];         alpha, beta, activation
//              out[B,M,N]
//   convolution  two of image, weights and result,  wanted, stride, padding,
//              in this order[, bias[C]]; the third    dilation, groups, activation,
//                                              deterministic
//   order      x[R,C]; values, places                 how, largest, k
//   attention  query[B,H,M,E], key[B,X,N,E],          scale, causal, window,
//              value[B,X,N,V][, bias][, seed, offset];  dropout, biased
//              out[B,H,M,V], logsumexp[B,H,M]
//   attention_backward  grad[B,H,M,V], query, key,    the same
//              value, out, logsumexp[, bias][, seed,
//              offset]; query's, key's, value's gradients
//
// Matrices: out = activation(beta * bias + alpha * a @ b). alpha and beta are
// floats, 1 when absent; with beta 0 the bias is not read, so its NaNs do not
// matter. activation is a string: "" (the default), "relu" or "gelu_tanh". One
// of the two last strides of a, b and out is 1, or its dimension is; the bias
// is a view of the result's shape, whose strides may be 0. Zero sizes are fine:
// K = 0 gives beta * bias.
//
// mm also has the activation "gelu_tanh_gradient": out = gelu_tanh'(x) * (a @ b). Only
// this one has x. It is for bf16 and f16 on CUDA, with K > 0, N and the row strides of
// all matrices multiples of 8 elements, and addresses multiples of 16 bytes
// (UNSUPPORTED_OP at load, GUARD_FAILED for an address).
//
// Convolutions: image[N,C,spatial...], weights[C_out,C/groups,spatial...] and
// result[N,C_out,spatial...] of a direct convolution. `wanted` names the one that is
// computed from the other two: "result" (the default), "image" or "weights". So
// gradients and transposed convolutions have the same form. There are one to three
// spatial dimensions. Strides may be any dense ones; contiguous and channels-last are
// fast. stride, padding and dilation are ints, one for each spatial dimension or one
// for all; groups is an int. bias and activation apply to a wanted result or image.
// added is an int, 0 when absent: 1 if an array of the result's sizes follows the bias
// and is added before the activation. deterministic is an int, 0 when absent: 1 if
// equal operands must give equal bits in every run.
//
// Order, of each row of x: values and where they stood, NaN being larger than
// all numbers. how "sort": all (C = N), equals keeping their order; "top" and
// "top_unsorted": the C first; "kth": number k, from 0 (C = 1); "median" and
// "nanmedian" (C = 1): the lower of two in the middle, the first NaN if there is
// one, or of the numbers alone. largest, an int: sort and top from the largest
// on. Which of equal values is taken is PyTorch's choice on the CPU. x and
// values may be of any dtype.
//
// Attention: out = dropped(softmax(scale * query @ key^T + bias)) @ value, and the
// logarithm of each row's sum of exponentials, f32. X divides H: H / X heads share
// a key. causal, a string: "" (the default), "top_left" (row m sees column n where
// n <= m), "bottom_right" (n - N <= m - M). window, an int: of these columns a row
// sees the last ones alone, n > m - window counted alike; 0: all. biased, an int:
// whether there is a bias, [B,H,M,N] with strides of 0 where it is stretched, of
// the operands' dtype or f32. dropout: the probability with which a weight is 0
// (else it is scaled by 1 / (1 - dropout)); then seed and offset, i64 [], name the
// draw. Backward and forward draw alike on one device. On CUDA a row that sees
// nothing is what cuDNN makes of it, as in eager mode: 0, NaN or the mean of all
// values. On the CPU it and its logarithm are 0.
//
// Products take allow_tf32 and allow_reduced_sums, ints, 0 when absent: what
// a library may round for speed (see Precision). CPU libraries have no use for
// them.
//
// Products, convolutions and attention without dropout take algorithm, a string: one of
// ExternLibrary::Algorithms' names. Where the library has none of that name, and without
// one, it takes its own first choice; PreparedCall::algorithm says which.
//
// Dtypes: f32, bf16, f16 (computed in f32), f64; on the CPU also i64 and i32
// matrices. All operands of a call have one dtype. On CUDA an f64 call takes no
// activation, and K = 0 takes no beta but 0 and 1 (UNSUPPORTED_OP at load).
// Attention: on CUDA of bf16 and f16, E and V multiples of 8 to 256, no size 0, N and
// M not both 1 in a backward, strides of all but the last dimension in multiples of 8
// elements, those of the last 1. On the CPU of f32, bf16 and f16, without dropout.
//
// Errors of a plan that breaks this: ARTIFACT_CORRUPT for shapes that
// contradict each other, UNSUPPORTED_OP for a name, dtype or attribute that is
// not in the table; both name the call.

namespace kiln {

enum class Activation { kNone, kRelu, kGeluTanh };

// What a library may give up for speed; by default nothing: products and sums
// in f32 (f64 for f64), one rounding at the end.
struct Precision {
  bool tf32 = false;          // f32 factors rounded to 10 bits of fraction
  bool reduced_sums = false;  // parts of a half type's sum rounded to that type
  bool operator==(const Precision&) const = default;
};

// Strides of a matrix, or of a batch of them, in elements.
struct MatrixStrides {
  int64_t batch = 0;
  int64_t row = 0;
  int64_t column = 0;
  bool operator==(const MatrixStrides&) const = default;
};

// out[b] = activation(beta * bias[b] + alpha * a[b] @ b[b]), with numbers known. With a
// gelu_input x there is neither bias nor activation: out = gelu_tanh'(x) * (a @ b).
struct MatmulProblem {
  DType dtype = DType::kFloat32;
  int64_t batch = 1;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  MatrixStrides a;
  MatrixStrides b;
  MatrixStrides out;
  bool has_bias = false;  // false also when beta is 0
  MatrixStrides bias;
  double alpha = 1;
  double beta = 1;
  Activation activation = Activation::kNone;
  bool has_gelu_input = false;
  MatrixStrides gelu_input;
  Precision precision;
  std::string algorithm;  // empty: the library's own first choice
  bool operator==(const MatmulProblem&) const = default;
};

// One of the three products of a direct convolution of an image with weights
// into a result.
struct ConvolutionProblem {
  static constexpr int kMaxSpatial = 3;
  enum class Wanted { kResult, kImage, kWeights };

  Wanted wanted = Wanted::kResult;
  DType dtype = DType::kFloat32;
  int spatial = 2;  // dimensions in use of the arrays below
  int64_t groups = 1;
  int64_t batch = 1;
  int64_t image_channels = 0;   // C
  int64_t result_channels = 0;  // K
  int64_t image[kMaxSpatial] = {1, 1, 1};
  int64_t window[kMaxSpatial] = {1, 1, 1};
  int64_t result[kMaxSpatial] = {1, 1, 1};
  int64_t stride[kMaxSpatial] = {1, 1, 1};
  int64_t padding[kMaxSpatial] = {0, 0, 0};
  int64_t dilation[kMaxSpatial] = {1, 1, 1};
  // In elements: batch, channel, spatial...; of the weights: result channel,
  // channel in its group, spatial...
  int64_t image_strides[2 + kMaxSpatial] = {};
  int64_t weight_strides[2 + kMaxSpatial] = {};
  int64_t result_strides[2 + kMaxSpatial] = {};
  // One number a channel of what is wanted (kResult or kImage).
  bool has_bias = false;
  int64_t bias_stride = 1;
  // An array of the result's sizes, which is added before the activation; of kResult.
  bool has_added = false;
  int64_t added_strides[2 + kMaxSpatial] = {};
  Activation activation = Activation::kNone;  // of kResult or kImage
  Precision precision;
  bool deterministic = false;
  std::string algorithm;  // empty: the library's own first choice
  bool operator==(const ConvolutionProblem&) const = default;
};

// How many places an image, a window or a result has: its extents' product.
inline int64_t PlacesOf(
    const int64_t (&extents)[ConvolutionProblem::kMaxSpatial]) {
  return extents[0] * extents[1] * extents[2];
}

// Operands of a convolution, by ExternBuffers' numbers.
inline constexpr int kImageOperand = 0;
inline constexpr int kWeightsOperand = 1;
inline constexpr int kResultOperand = 2;
inline constexpr int kBiasOperand = 3;
inline constexpr int kAddedOperand = 4;

// The operand that is computed.
int WrittenOperand(ConvolutionProblem::Wanted wanted);

// The order of each row of x[rows, length]: `count` values and their places.
struct OrderProblem {
  enum class How { kSort, kTop, kTopUnsorted, kKth, kMedian, kNanMedian };

  How how = How::kSort;
  DType dtype = DType::kFloat32;
  int64_t rows = 0;
  int64_t length = 0;
  int64_t count = 0;
  int64_t k = 0;         // of kKth
  bool largest = false;  // of kSort and kTop: first
  // In elements.
  int64_t x_row = 0, x_column = 0;
  int64_t values_row = 0, values_column = 0;
  int64_t places_row = 0, places_column = 0;
  bool operator==(const OrderProblem&) const = default;
};

// Attention, or its gradient.
struct AttentionProblem {
  enum class Causal { kNone, kTopLeft, kBottomRight };
  struct Strides {  // in elements: batch, head, row, column
    int64_t batch = 0, head = 0, row = 0, column = 0;
    bool operator==(const Strides&) const = default;
  };

  bool backward = false;
  DType dtype = DType::kFloat32;
  int64_t batch = 0, heads = 0, key_heads = 0;
  int64_t queries = 0, keys = 0;
  int64_t width = 0, value_width = 0;  // of a head
  Strides query, key, value, out;
  Strides logsumexp;                               // without columns
  Strides grad, query_grad, key_grad, value_grad;  // of a backward
  bool has_bias = false;
  DType bias_dtype = DType::kFloat32;
  Strides bias;
  Causal causal = Causal::kNone;
  int64_t window = 0;  // 0: none
  double scale = 1;
  double dropout = 0;
  std::string algorithm;  // empty: the library's own first choice
  bool operator==(const AttentionProblem&) const = default;
};

// Operands of an attention, by ExternBuffers' numbers.
inline constexpr int kQueryOperand = 0;
inline constexpr int kKeyOperand = 1;
inline constexpr int kValueOperand = 2;
inline constexpr int kOutOperand = 3;
inline constexpr int kLogsumexpOperand = 4;
inline constexpr int kAttentionBiasOperand = 5;
inline constexpr int kSeedOperand = 6;
inline constexpr int kOffsetOperand = 7;
inline constexpr int kGradOperand = 8;
inline constexpr int kQueryGradOperand = 9;
inline constexpr int kKeyGradOperand = 10;
inline constexpr int kValueGradOperand = 11;

using ExternProblem = std::variant<MatmulProblem, ConvolutionProblem,
                                   OrderProblem, AttentionProblem>;

// The addresses of one call. Of a matmul: a, b, bias (null without), out. Of a
// convolution: image, weights, result, bias, what is added (null without); the
// wanted one of the first three is written, the others read. Of an order: x, values, places. Of
// an attention: see above, null for those that it lacks.
inline constexpr int kMaxExternOperands = 12;
struct ExternBuffers {
  void* operand[kMaxExternOperands] = {};
  void* workspace = nullptr;  // PreparedCall::workspace_bytes of the call's own
  // A copy of one operand that PrepareOperand made; then the operand itself is not
  // read. Null: a convolution makes the copy in every run, a matmul reads the operand
  // as it lies.
  void* prepared = nullptr;
};

// The form in which a library wants an operand of which it can be given a copy.
struct OperandForm {
  int operand = -1;    // by ExternBuffers' numbers; -1: it wants none
  int64_t bytes = 0;   // of the copy, as an Allocator aligns it
  std::string layout;  // how the operand lies and how the copy does, as bytes:
                       // equal for calls that can share a copy
};

// A library call ready for one problem. Immutable; any number of threads and
// streams may be in Run at once.
class PreparedCall {
 public:
  virtual ~PreparedCall() = default;

  // Puts the work on `stream`. On CUDA it allocates nothing, so it can be
  // captured.
  //
  // INTERNAL            the library refused or failed: its own words
  // RESOURCE_EXHAUSTED  on the CPU: no memory for what a thread needs
  virtual absl::Status Run(const ExternBuffers& buffers,
                           Stream stream) const = 0;

  // What a Run writes beside its results, as an Allocator aligns it. 0: nothing.
  virtual int64_t workspace_bytes() const { return 0; }

  // What a caller whose operand never changes may prepare once and give to every Run.
  virtual OperandForm operand_form() const { return {}; }

  // Copies that operand to `to`, which holds operand_form().bytes. Reads no other.
  // For calls that have such a form. Errors: of Run.
  virtual absl::Status PrepareOperand(const ExternBuffers& /*buffers*/,
                                      void* /*to*/) const {
    return absl::InternalError("a call that prepares no operand");
  }

  // Who computes it, for traces: "oneDNN", "own loops", "cuBLASLt".
  virtual absl::string_view library() const = 0;

  // Which of the library's ways it takes, where the library tells: its name among
  // Algorithms. Else "".
  virtual std::string algorithm() const { return ""; }
};

// The libraries of one device. Thread-safe.
class ExternLibrary {
 public:
  virtual ~ExternLibrary() = default;

  // Chooses and makes ready what computes `problem`: milliseconds at worst, so
  // it is done at load where the shapes are known then.
  //
  // UNSUPPORTED_OP  nothing here computes it: the message names it
  // NO_DEVICE       the library for it is not on the machine: the message says
  //                 what was looked for, and where
  virtual absl::StatusOr<std::shared_ptr<const PreparedCall>> Prepare(
      const ExternProblem& problem) = 0;

  // Whether the library that plans for this device leave attention to is not on the
  // machine, too old, or refuses the device. The first to ask has it looked for; the
  // answer is for good.
  virtual bool LacksAttention() { return false; }

  // The algorithms that the library has for `problem`, each a word without blanks,
  // its own first choice first, `most` at most. None where there is no choice.
  // Errors: of Prepare.
  virtual absl::StatusOr<std::vector<std::string>> Algorithms(
      const ExternProblem& /*problem*/, int /*most*/) {
    return std::vector<std::string>();
  }

  // Weights brought into the library's own layout so far: once for each PrepareOperand,
  // and once for each Run of a convolution that was given none.
  virtual int64_t weight_reorders() const { return 0; }

  // Problems prepared so far for which our own, slower loops stand in for a
  // library that is not on the machine or did not take them. The first is
  // logged with its reason.
  virtual int64_t fallbacks() const { return 0; }
};

// "mm f32 [64, 32] @ [32, 128]", "convolution f32 ...": for messages.
std::string Describe(const ExternProblem& problem);

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_EXTERN_KERNEL_H_
