#ifndef KILN_RUNTIME_EXTERN_KERNELS_EXTERN_ATTRIBUTES_H_
#define KILN_RUNTIME_EXTERN_KERNELS_EXTERN_ATTRIBUTES_H_

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/extern_kernels/read_extern_call.h"

// What the readers of extern calls (read_extern_call.h) have in common.

namespace kiln {

// Reads the attributes of a call by name. AllKnown then refuses attributes that were
// never read, since this build does not know them. An attribute of the wrong type is
// ARTIFACT_CORRUPT.
class ExternAttributes {
 public:
  // `call` outlives this.
  explicit ExternAttributes(const ExternCall& call)
      : call_(call.name), all_(call.attributes) {}

  absl::StatusOr<double> Float(absl::string_view name, double absent);
  absl::StatusOr<int64_t> Int(absl::string_view name, int64_t absent);
  absl::StatusOr<absl::string_view> Text(absl::string_view name);
  absl::StatusOr<Precision> PrecisionAllowed();
  // Reads `count` numbers. A single number is repeated; an absent attribute or an empty
  // list gives `absent` for each.
  absl::Status Ints(absl::string_view name, int count, int64_t absent,
                    int64_t* out);
  // UNSUPPORTED_OP for an attribute that was not read.
  absl::Status AllKnown() const;

 private:
  const ExternAttribute* Find(absl::string_view name);
  absl::Status WrongType(absl::string_view name, absl::string_view due) const;

  const absl::string_view call_;
  const absl::Span<const ExternAttribute> all_;
  absl::InlinedVector<absl::string_view, 8> asked_;
};

// ARTIFACT_CORRUPT with all shapes of the call.
absl::Status Contradiction(const ExternCall& call);
// ARTIFACT_CORRUPT for another number of inputs or outputs.
absl::Status CheckCounts(const ExternCall& call, size_t inputs, size_t outputs);

}  // namespace kiln

#endif  // KILN_RUNTIME_EXTERN_KERNELS_EXTERN_ATTRIBUTES_H_
