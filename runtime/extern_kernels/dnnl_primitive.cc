#include "runtime/extern_kernels/dnnl_primitive.h"

#include <array>
#include <utility>

#include "proto/base/status.h"

namespace kiln {

absl::StatusOr<std::unique_ptr<const DnnlPrimitive>> DnnlPrimitive::Create(
    std::shared_ptr<const DnnlLibrary> library, const_dnnl_op_desc_t what) {
  dnnl_primitive_attr_t attributes = nullptr;
  RETURN_IF_ERROR(DnnlLibrary::Check(
      library->dnnl_primitive_attr_create(&attributes), "attr_create"));
  dnnl_status_t status = library->dnnl_primitive_attr_set_scratchpad_mode(
      attributes, dnnl_scratchpad_mode_user);
  std::unique_ptr<DnnlPrimitive> made(new DnnlPrimitive(library));
  if (status == dnnl_success) {
    status = library->dnnl_primitive_desc_create(
        &made->description_, what, attributes, library->engine(), nullptr);
  }
  library->dnnl_primitive_attr_destroy(attributes);
  RETURN_IF_ERROR(DnnlLibrary::Check(status, "primitive_desc_create"));
  RETURN_IF_ERROR(DnnlLibrary::Check(
      library->dnnl_primitive_create(&made->primitive_, made->description_),
      "primitive_create"));
  return std::unique_ptr<const DnnlPrimitive>(std::move(made));
}

absl::StatusOr<std::unique_ptr<const DnnlPrimitive>>
DnnlPrimitive::CreateReorder(std::shared_ptr<const DnnlLibrary> library,
                             const dnnl_memory_desc_t& from,
                             const dnnl_memory_desc_t& to) {
  std::unique_ptr<DnnlPrimitive> made(new DnnlPrimitive(library));
  RETURN_IF_ERROR(DnnlLibrary::Check(
      library->dnnl_reorder_primitive_desc_create(&made->description_, &from,
                                                  library->engine(), &to,
                                                  library->engine(), nullptr),
      "reorder_primitive_desc_create"));
  RETURN_IF_ERROR(DnnlLibrary::Check(
      library->dnnl_primitive_create(&made->primitive_, made->description_),
      "primitive_create"));
  return std::unique_ptr<const DnnlPrimitive>(std::move(made));
}

DnnlPrimitive::~DnnlPrimitive() {
  if (primitive_ != nullptr) library_->dnnl_primitive_destroy(primitive_);
  if (description_ != nullptr) {
    library_->dnnl_primitive_desc_destroy(description_);
  }
}

const dnnl_memory_desc_t& DnnlPrimitive::Layout(int argument) const {
  static const dnnl_memory_desc_t kNone{};
  const dnnl_memory_desc_t* const layout =
      argument == DNNL_ARG_SCRATCHPAD
          ? library_->dnnl_primitive_desc_query_md(description_,
                                                   dnnl_query_scratchpad_md, 0)
          : library_->dnnl_primitive_desc_query_md(
                description_, dnnl_query_exec_arg_md, argument);
  return layout == nullptr ? kNone : *layout;
}

int64_t DnnlPrimitive::Bytes(const dnnl_memory_desc_t& layout) const {
  return static_cast<int64_t>(library_->dnnl_memory_desc_get_size(&layout));
}

absl::Status DnnlPrimitive::Execute(
    absl::Span<const Argument> arguments) const {
  std::array<dnnl_exec_arg_t, 6> given{};
  int count = 0;
  dnnl_status_t status = dnnl_success;
  for (const Argument& argument : arguments) {
    if (argument.data == nullptr) continue;
    given[count].arg = argument.which;
    status = library_->dnnl_memory_create(&given[count].memory, argument.layout,
                                          library_->engine(), argument.data);
    if (status != dnnl_success) break;
    ++count;
  }
  if (status == dnnl_success) {
    status = library_->dnnl_primitive_execute(primitive_, library_->stream(),
                                              count, given.data());
  }
  for (int i = 0; i < count; ++i) {
    library_->dnnl_memory_destroy(given[i].memory);
  }
  return DnnlLibrary::Check(status, "primitive_execute");
}

}  // namespace kiln
