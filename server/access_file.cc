#include "server/access_file.h"

#include "absl/strings/str_cat.h"
#include "proto/base/log.h"
#include "server/config_text.h"

namespace kiln {

void AccessFile::Look() {
  const FileVersion version = VersionOf(path_);
  if (version == version_) return;
  version_ = version;
  Config read;
  const absl::Status good = ReadConfigFile(path_, read);
  if (!good.ok()) {
    LogWarning("access.not_taken", {{"error", std::string(good.message())}});
    return Tell(std::string(good.message()), good);
  }
  if (read.access == in_force_) return;
  in_force_ = std::move(read.access);
  take_(in_force_);
  LogInfo("access.replaced", {{"file", path_}, {"rules", in_force_.size()}});
  Tell(absl::StrCat(path_, ": ", in_force_.size(), " rules"), good);
}

void AccessFile::Tell(const std::string& subject, const absl::Status& outcome) {
  audit_.Record("config", "replace access rules", subject, outcome);
}

}  // namespace kiln
