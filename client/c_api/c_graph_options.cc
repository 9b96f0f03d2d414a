#include "client/c_api/c_graph_options.h"

#include "client/c_api/c_status.h"
#include "proto/base/status.h"

namespace kiln {

absl::Status CheckGraphOptions(const KilnGraphOptions* given) {
  if (given == nullptr) return absl::OkStatus();
  RETURN_IF_ERROR(CheckStruct("graph_options", given));
  RETURN_IF_ERROR(CheckAtLeast("rerecord_limit", given->rerecord_limit, -1));
  RETURN_IF_ERROR(
      CheckAtLeast("sizes_warn_limit", given->sizes_warn_limit, -1));
  RETURN_IF_ERROR(
      CheckAtLeast("memory_limit_bytes", given->memory_limit_bytes, 0));
  RETURN_IF_ERROR(
      CheckAtLeast("capture_size_values", given->capture_size_values, 0));
  return CheckArray("capture_sizes", given->capture_sizes,
                    given->capture_size_count);
}

GraphOptions GraphOptionsOf(const KilnGraphOptions* given) {
  GraphOptions options;
  if (given == nullptr) return options;
  if (given->rerecord_limit != 0) {
    options.rerecord_limit =
        given->rerecord_limit < 0 ? 0 : given->rerecord_limit;
  }
  if (given->sizes_warn_limit != 0) {
    options.sizes_warn_limit =
        given->sizes_warn_limit < 0 ? 0 : given->sizes_warn_limit;
  }
  if (given->memory_limit_bytes != 0) {
    options.memory_limit_bytes = given->memory_limit_bytes;
  }
  const int64_t* at = given->capture_sizes;
  for (int32_t i = 0; i < given->capture_size_count; ++i) {
    options.capture_sizes.emplace_back(at, at + given->capture_size_values);
    at += given->capture_size_values;
  }
  options.skip_dynamic = given->skip_dynamic != 0;
  options.mutation_of_results = given->no_mutation_of_results == 0;
  options.skip_is_error = given->skip_is_error != 0;
  options.check_pool = given->check_pool != 0;
  return options;
}

}  // namespace kiln
