#include "compiler/codegen/cuda_sorts.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/sort_writer.h"
#include "compiler/schedule/sort_memory.h"
#include "proto/base/status.h"

namespace kiln {
namespace {

// Digits of 256 values are sorted at a time.
constexpr int kDigitBits = 8;

class SortsWriter {
 public:
  SortsWriter(CudaBody& body, const CudaSorts& variant)
      : v_(variant), body_(body), out_(body.out), sort_(body) {}

  absl::StatusOr<CudaGrid> Run() {
    out_.Line("extern __shared__ k_words<4> sorted[];");
    out_.Line("unsigned* const counts = (unsigned*)sorted;");
    out_.Line("unsigned* const words = counts + ", CountWordsOf(v_), ";");
    if (PlacesApart())
      out_.Line("unsigned short* const places = (unsigned short*)(words + ",
                int64_t{v_.threads} * v_.items, ");");
    RETURN_IF_ERROR(sort_.OpenRow());
    RETURN_IF_ERROR(Sort());
    RETURN_IF_ERROR(Places());
    CudaGrid grid = sort_.CloseRow(v_.blocks);
    grid.shared_bytes = SharedBytesOf(v_, SizeInBytes(sort_.key_type()));
    return grid;
  }

 private:
  int KeyBits() const {
    return 8 * static_cast<int>(SizeInBytes(sort_.key_type()));
  }
  bool PlacesApart() const {
    return kiln::PlacesApart(SizeInBytes(sort_.key_type()));
  }

  absl::Status Sort() {
    const char* type = body_.index_type();
    out_.Open("for (", type, " r = t; r < ", body_.Index(sort_.groups()),
              "; r += ", v_.threads, ")");
    RETURN_IF_ERROR(sort_.Group([&] {
      const std::string place = sort_.Place();
      const std::string beside =
          PlacesApart()
              ? ""
              : absl::StrCat(" << ", 32 - KeyBits(), " | (unsigned)", place);
      out_.Line("words[", place, "] = ", sort_.Order(), beside, ";");
    }));
    out_.Close();
    out_.Line("k_radix_sort<", v_.threads, ", ", v_.items, ", ",
              KeyBits() / kDigitBits, ", ", PlacesApart() ? "true" : "false",
              ">(words, ", PlacesApart() ? "places" : "nullptr",
              ", counts, (int)", body_.Index(sort_.size()), ");");
    return absl::OkStatus();
  }

  absl::Status Places() {
    const std::string at = sort_.axis();
    return sort_.StorePlaces(
        v_.threads,
        PlacesApart()
            ? absl::StrCat("((long long)places[", at, "])")
            : absl::StrCat("((long long)(words[", at, "] & 0x",
                           KeyBits() == 16 ? "ffff" : "ffffff", "u))"));
  }

  const CudaSorts& v_;
  CudaBody& body_;
  CWriter& out_;
  SortWriter sort_;
};

}  // namespace

absl::StatusOr<CudaGrid> WriteCudaSorts(CudaBody& body,
                                        const CudaSorts& variant) {
  return SortsWriter(body, variant).Run();
}

}  // namespace kiln
