#include "runtime/extern_kernels/dnnl_slab.h"

#include <algorithm>

#include "proto/base/status.h"
#include "runtime/extern_kernels/convolution_steps.h"
#include "runtime/extern_kernels/matmul_finish.h"
#include "runtime/extern_kernels/read_extern_call.h"

namespace kiln {
namespace {

using Wanted = ConvolutionProblem::Wanted;

int64_t AlignedUp(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// oneDNN's name of operand `i` when `wanted` is computed.
int ArgumentName(Wanted wanted, int i) {
  switch (i) {
    case kImageOperand:
      return wanted == Wanted::kImage ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC;
    case kWeightsOperand:
      return wanted == Wanted::kWeights ? DNNL_ARG_DIFF_WEIGHTS
                                        : DNNL_ARG_WEIGHTS;
    case kResultOperand:
      return wanted == Wanted::kResult ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST;
    default:
      return DNNL_ARG_BIAS;
  }
}

// A tensor as the caller has it.
struct CallerLayout {
  int rank = 0;
  dnnl_dims_t sizes = {};
  dnnl_dims_t strides = {};
};

// From image to image. Of a single one, which may be rows of a larger one, what it would be
// without gaps: oneDNN's fast loops refuse another.
int64_t BatchStride(const ConvolutionProblem& p, int64_t channels,
                    const int64_t* extents, const int64_t* strides) {
  if (p.batch != 1) return strides[0];
  int64_t span = channels * strides[1];
  for (int i = 0; i < p.spatial; ++i)
    span = std::max(span, extents[i] * strides[2 + i]);
  return span;
}

CallerLayout LayoutOf(const ConvolutionProblem& p, int operand) {
  CallerLayout out;
  const auto add = [&out](int64_t size, int64_t stride) {
    out.sizes[out.rank] = size;
    out.strides[out.rank++] = stride;
  };
  const int64_t* extents = p.image;
  const int64_t* strides = p.image_strides;
  if (operand == kImageOperand) {
    add(p.batch, BatchStride(p, p.image_channels, extents, strides));
    add(p.image_channels, strides[1]);
  } else if (operand == kResultOperand) {
    extents = p.result;
    strides = p.result_strides;
    add(p.batch, BatchStride(p, p.result_channels, extents, strides));
    add(p.result_channels, strides[1]);
  } else {
    extents = p.window;
    strides = p.weight_strides;
    const int64_t group_results = p.result_channels / p.groups;
    if (p.groups > 1) add(p.groups, group_results * strides[0]);
    add(group_results, strides[0]);
    add(p.image_channels / p.groups, strides[1]);
  }
  for (int i = 0; i < p.spatial; ++i) add(extents[i], strides[2 + i]);
  return out;
}

dnnl_data_type_t DataType(DType dtype) {
  return dtype == DType::kBFloat16 ? dnnl_bf16 : dnnl_f32;
}

inline __attribute__((always_inline)) void ReluLoop(float* data,
                                                    int64_t count) {
  for (int64_t i = 0; i < count; ++i) data[i] = data[i] < 0 ? 0 : data[i];
}

inline __attribute__((always_inline)) void AddReluLoop(float* data,
                                                       const float* added,
                                                       int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const float sum = data[i] + added[i];
    data[i] = sum < 0 ? 0 : sum;
  }
}

__attribute__((target("avx2"))) void ReluWithAvx2(float* data, int64_t count) {
  ReluLoop(data, count);
}
__attribute__((target("avx2"))) void AddReluWithAvx2(float* data,
                                                     const float* added,
                                                     int64_t count) {
  AddReluLoop(data, added, count);
}

// The width is asked here, not by `target_clones`: the loader runs those
// resolvers before ThreadSanitizer is ready, and a program dies before main.
bool HasAvx2() {
  static const bool has_avx2 = __builtin_cpu_supports("avx2");
  return has_avx2;
}

// relu, at the width of the machine's vectors; a NaN stays.
void Relu(float* data, int64_t count) {
  HasAvx2() ? ReluWithAvx2(data, count) : ReluLoop(data, count);
}

// The same of a sum.
void AddRelu(float* data, const float* added, int64_t count) {
  HasAvx2() ? AddReluWithAvx2(data, added, count)
            : AddReluLoop(data, added, count);
}

void ActivateLine(Activation activation, float* data, int64_t count) {
  if (activation == Activation::kRelu) {
    Relu(data, count);
  } else {
    Activate(activation, data, count);
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<const DnnlSlab>> DnnlSlab::Create(
    const ConvolutionProblem& p, int64_t most_images,
    std::shared_ptr<const DnnlLibrary> library) {
  ConvolutionProblem step = p;
  step.batch = ImagesAtATime(p, most_images);
  std::shared_ptr<DnnlSlab> slab(
      new DnnlSlab(step, p.batch / step.batch, std::move(library)));
  RETURN_IF_ERROR(slab->DescribeCaller());
  RETURN_IF_ERROR(slab->CreatePrimitive());
  RETURN_IF_ERROR(slab->CreateReorders());
  return std::shared_ptr<const DnnlSlab>(std::move(slab));
}

absl::Status DnnlSlab::PrepareWeights(int64_t part, const Operands& caller,
                                      char* weights) const {
  return weight_parts_[part]->Execute(caller[kWeightsOperand], weights);
}

std::string DnnlSlab::WeightsLayout() const {
  std::string layout;
  for (const dnnl_memory_desc_t* const described :
       {&caller_[kWeightsOperand],
        &primitive_->Layout(ArgumentName(p_.wanted, kWeightsOperand))}) {
    layout.append(reinterpret_cast<const char*>(described),
                  sizeof(dnnl_memory_desc_t));
  }
  return layout;
}

absl::Status DnnlSlab::RunStep(int64_t step, Operands caller, char* weights,
                               char* room) const {
  const int64_t bytes = step * p_.batch * SizeInBytes(p_.dtype);
  caller[kImageOperand] += bytes * p_.image_strides[0];
  caller[kResultOperand] += bytes * p_.result_strides[0];
  if (p_.has_added) caller[kAddedOperand] += bytes * p_.added_strides[0];
  std::array<DnnlPrimitive::Argument, 5> arguments;
  for (int i = 0; i < 3; ++i) {
    const int name = ArgumentName(p_.wanted, i);
    char* const own = i == kWeightsOperand && weights_bytes_ > 0
                          ? weights
                          : room + room_starts_[i];
    if (i != written_ && i != kWeightsOperand)
      RETURN_IF_ERROR(ReorderIn(i, caller, own));
    arguments[i] = {
        name, &primitive_->Layout(name),
        reorders_[i] == nullptr && own != weights ? caller[i] : own};
  }
  const dnnl_memory_desc_t& bias = primitive_->Layout(DNNL_ARG_BIAS);
  const dnnl_memory_desc_t& scratch = primitive_->Layout(DNNL_ARG_SCRATCHPAD);
  const bool takes_bias = p_.has_bias && p_.wanted == Wanted::kResult;
  arguments[3] = {DNNL_ARG_BIAS, &bias,
                  takes_bias ? caller[kBiasOperand] : nullptr};
  arguments[4] = {DNNL_ARG_SCRATCHPAD, &scratch, room + room_starts_[3]};
  RETURN_IF_ERROR(primitive_->Execute(arguments));
  return Finish(arguments[written_], takes_bias, caller);
}

absl::Status DnnlSlab::ReorderIn(int operand, const Operands& caller,
                                 char* to) const {
  if (reorders_[operand] == nullptr) return absl::OkStatus();
  return reorders_[operand]->Execute(caller[operand], to);
}

absl::Status DnnlSlab::Finish(const DnnlPrimitive::Argument& written,
                              bool has_bias, const Operands& caller) const {
  bool active = p_.activation == Activation::kNone;
  if (reorders_[written_] != nullptr) {
    const DnnlReorder& reorder = *reorders_[written_];
    OnTheWay way = OnTheWay::kNothing;
    if (!active && !p_.has_added && has_bias == p_.has_bias) {
      active = true;
      if (p_.activation == Activation::kRelu && reorder.TakesRelu()) {
        way = OnTheWay::kRelu;
      } else {  // while it is in the cache, and one long line
        ActivateLine(
            p_.activation, static_cast<float*>(written.data),
            primitive_->Bytes(*written.layout) / int64_t{sizeof(float)});
      }
    }
    RETURN_IF_ERROR(reorder.Execute(written.data, caller[written_], way));
  }
  if (p_.has_bias && !has_bias) AddImageBias(caller);
  if (p_.has_added) {
    AddAndActivate(caller);
    return absl::OkStatus();
  }
  if (!active) ActivateWritten(caller);
  return absl::OkStatus();
}

absl::Status DnnlSlab::DescribeCaller() {
  for (int i = 0; i < 3; ++i) {
    const CallerLayout layout = LayoutOf(p_, i);
    for (int dim = 0; dim < layout.rank; ++dim) {
      if (layout.strides[dim] == 0 && layout.sizes[dim] != 1) {
        return MakeError(ErrorReason::kUnsupportedOp,
                         Describe(p_) + ": an operand repeats elements");
      }
    }
    RETURN_IF_ERROR(
        DnnlLibrary::Check(library_->dnnl_memory_desc_init_by_strides(
                               &caller_[i], layout.rank, layout.sizes,
                               DataType(p_.dtype), layout.strides),
                           "memory_desc_init_by_strides"));
  }
  return absl::OkStatus();
}

absl::StatusOr<dnnl_memory_desc_t> DnnlSlab::Wish(int operand) const {
  if (operand != kWeightsOperand && as_it_lies_) return caller_[operand];
  dnnl_memory_desc_t any;
  RETURN_IF_ERROR(DnnlLibrary::Check(
      library_->dnnl_memory_desc_init_by_tag(
          &any, caller_[operand].ndims, caller_[operand].dims,
          caller_[operand].data_type, dnnl_format_tag_any),
      "memory_desc_init_by_tag"));
  return any;
}

absl::Status DnnlSlab::CreatePrimitive() {
  ASSIGN_OR_RETURN(const dnnl_memory_desc_t image, Wish(kImageOperand));
  ASSIGN_OR_RETURN(const dnnl_memory_desc_t weights, Wish(kWeightsOperand));
  ASSIGN_OR_RETURN(const dnnl_memory_desc_t result, Wish(kResultOperand));
  dnnl_dims_t dilation;  // oneDNN counts the gaps
  for (int i = 0; i < p_.spatial; ++i) dilation[i] = p_.dilation[i] - 1;
  dnnl_dims_t end_padding;  // as far as the windows reach
  for (int i = 0; i < p_.spatial; ++i) {
    const int64_t reached = (p_.result[i] - 1) * p_.stride[i] +
                            (p_.window[i] - 1) * p_.dilation[i] + 1;
    end_padding[i] =
        std::max<int64_t>(reached - p_.image[i] - p_.padding[i], 0);
  }
  dnnl_convolution_desc_t what;
  dnnl_status_t status = dnnl_invalid_arguments;
  switch (p_.wanted) {
    case Wanted::kResult: {
      dnnl_memory_desc_t bias{};
      const dnnl_dims_t channels = {p_.result_channels};
      const dnnl_dims_t step = {1};
      if (p_.has_bias) {
        RETURN_IF_ERROR(DnnlLibrary::Check(
            library_->dnnl_memory_desc_init_by_strides(
                &bias, 1, channels, DataType(p_.dtype), step),
            "memory_desc_init_by_strides"));
      }
      status = library_->dnnl_dilated_convolution_forward_desc_init(
          &what, dnnl_forward_inference, dnnl_convolution_direct, &image,
          &weights, p_.has_bias ? &bias : nullptr, &result, p_.stride, dilation,
          p_.padding, end_padding);
      break;
    }
    case Wanted::kImage:
      status = library_->dnnl_dilated_convolution_backward_data_desc_init(
          &what, dnnl_convolution_direct, &image, &weights, &result, p_.stride,
          dilation, p_.padding, p_.padding);
      break;
    case Wanted::kWeights:
      status = library_->dnnl_dilated_convolution_backward_weights_desc_init(
          &what, dnnl_convolution_direct, &image, &weights, nullptr, &result,
          p_.stride, dilation, p_.padding, p_.padding);
      break;
  }
  // An output padding as large as the stride breaks oneDNN's own relation of
  // sizes: what it calls invalid is for the loops that know the case.
  if (status == dnnl_invalid_arguments) status = dnnl_unimplemented;
  RETURN_IF_ERROR(DnnlLibrary::Check(status, "convolution_desc_init"));
  ASSIGN_OR_RETURN(primitive_, DnnlPrimitive::Create(library_, &what));
  return absl::OkStatus();
}

absl::Status DnnlSlab::CreateReorders() {
  for (int i = 0; i < 3; ++i) {
    const dnnl_memory_desc_t& due =
        primitive_->Layout(ArgumentName(p_.wanted, i));
    room_starts_[i] = room_bytes_;
    if (library_->dnnl_memory_desc_equal(&due, &caller_[i])) continue;
    if (i == kWeightsOperand && i != written_) {
      weights_bytes_ = AlignedUp(primitive_->Bytes(due));
      RETURN_IF_ERROR(CreateWeightParts());
      continue;
    }
    room_bytes_ += AlignedUp(primitive_->Bytes(due));
    const dnnl_memory_desc_t& from = i == written_ ? due : caller_[i];
    const dnnl_memory_desc_t& to = i == written_ ? caller_[i] : due;
    ASSIGN_OR_RETURN(reorders_[i], DnnlReorder::Create(library_, from, to));
  }
  room_starts_[3] = room_bytes_;
  room_bytes_ +=
      AlignedUp(primitive_->Bytes(primitive_->Layout(DNNL_ARG_SCRATCHPAD)));
  // An empty scratchpad has an address too.
  room_bytes_ += 64;
  return absl::OkStatus();
}

absl::Status DnnlSlab::CreateWeightParts() {
  // Whole blocks of every layout that oneDNN has, and worth a thread's while.
  constexpr int64_t kUnit = 64;
  constexpr int64_t kElementsOfPart = 64 * 1024;
  const dnnl_memory_desc_t& from = caller_[kWeightsOperand];
  const dnnl_memory_desc_t& to =
      primitive_->Layout(ArgumentName(p_.wanted, kWeightsOperand));
  int64_t elements_of_one = 1;
  for (int i = 1; i < from.ndims; ++i) elements_of_one *= from.dims[i];
  const int64_t units = kElementsOfPart / (kUnit * elements_of_one) + 1;
  dnnl_dims_t sizes;
  dnnl_dims_t starts = {};
  std::copy(from.dims, from.dims + from.ndims, sizes);
  for (; starts[0] < from.dims[0]; starts[0] += sizes[0]) {
    sizes[0] = std::min(units * kUnit, from.dims[0] - starts[0]);
    dnnl_memory_desc_t part_from, part_to;
    if (library_->dnnl_memory_desc_init_submemory(&part_from, &from, sizes,
                                                  starts) != dnnl_success ||
        library_->dnnl_memory_desc_init_submemory(&part_to, &to, sizes,
                                                  starts) != dnnl_success) {
      weight_parts_.clear();  // A layout that is not cut: all at once.
      part_from = from;
      part_to = to;
      sizes[0] = from.dims[0];
    }
    ASSIGN_OR_RETURN(auto part,
                     DnnlReorder::Create(library_, part_from, part_to));
    weight_parts_.push_back(std::move(part));
    if (sizes[0] == from.dims[0]) break;
  }
  return absl::OkStatus();
}

template <typename Visit>
void DnnlSlab::ForEachLine(const Operands& caller, const Visit& visit) const {
  float* const data = reinterpret_cast<float*>(caller[written_]);
  const bool image = written_ == kImageOperand;
  const int64_t* const s = image ? p_.image_strides : p_.result_strides;
  const int64_t* const extents = image ? p_.image : p_.result;
  const int64_t channels = image ? p_.image_channels : p_.result_channels;
  // Of a line of pixels, the last spatial dimension in use is the longest.
  const int last = p_.spatial - 1;
  int64_t outer[ConvolutionProblem::kMaxSpatial];
  std::copy(extents, extents + ConvolutionProblem::kMaxSpatial, outer);
  outer[last] = 1;
  for (int64_t n = 0; n < p_.batch; ++n) {
    for (int64_t i = 0; i < outer[0]; ++i) {
      for (int64_t j = 0; j < outer[1]; ++j) {
        for (int64_t k = 0; k < outer[2]; ++k) {
          float* const pixels =
              data + n * s[0] + i * s[2] + j * s[3] + k * s[4];
          visit(pixels, channels, s[1], extents[last], s[2 + last]);
        }
      }
    }
  }
}

void DnnlSlab::AddImageBias(const Operands& caller) const {
  const float* const bias =
      reinterpret_cast<const float*>(caller[kBiasOperand]);
  ForEachLine(caller, [&](float* at, int64_t channels, int64_t channel_step,
                          int64_t pixels, int64_t pixel_step) {
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t i = 0; i < pixels; ++i) {
        at[c * channel_step + i * pixel_step] += bias[c * p_.bias_stride];
      }
    }
  });
}

void DnnlSlab::AddAndActivate(const Operands& caller) const {
  const auto* const written = reinterpret_cast<const float*>(caller[written_]);
  const auto* const added =
      reinterpret_cast<const float*>(caller[kAddedOperand]);
  const auto finish = [&](float* at, int64_t count) {
    const float* const more = added + (at - written);
    if (p_.activation == Activation::kRelu) {
      AddRelu(at, more, count);
      return;
    }
    for (int64_t i = 0; i < count; ++i) at[i] += more[i];
    Activate(p_.activation, at, count);
  };
  ForEachLine(caller, [&](float* at, int64_t channels, int64_t channel_step,
                          int64_t pixels, int64_t pixel_step) {
    if (channel_step == 1 && pixel_step == channels) {
      finish(at, pixels * channels);
      return;
    }
    for (int64_t c = 0; c < channels; ++c) {
      float* const line = at + c * channel_step;
      if (pixel_step == 1) {
        finish(line, pixels);
        continue;
      }
      for (int64_t i = 0; i < pixels; ++i) finish(line + i * pixel_step, 1);
    }
  });
}

void DnnlSlab::ActivateWritten(const Operands& caller) const {
  ForEachLine(caller, [&](float* at, int64_t channels, int64_t channel_step,
                          int64_t pixels, int64_t pixel_step) {
    if (channel_step == 1 && pixel_step == channels) {
      ActivateLine(p_.activation, at, pixels * channels);
      return;
    }
    if (channel_step == 1) {
      for (int64_t i = 0; i < pixels; ++i) {
        Activate(p_.activation, at + i * pixel_step, channels);
      }
      return;
    }
    for (int64_t c = 0; c < channels; ++c) {
      if (pixel_step == 1) {
        Activate(p_.activation, at + c * channel_step, pixels);
        continue;
      }
      for (int64_t i = 0; i < pixels; ++i) {
        Activate(p_.activation, at + c * channel_step + i * pixel_step, 1);
      }
    }
  });
}

}  // namespace kiln
