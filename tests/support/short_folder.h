#ifndef KILN_TESTS_SUPPORT_SHORT_FOLDER_H_
#define KILN_TESTS_SUPPORT_SHORT_FOLDER_H_

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace kiln {

// A fresh folder with a name short enough for a socket's path, which Bazel's
// own are not. Removed with all that is in it when destroyed.
class ShortFolder {
 public:
  ShortFolder() {
    char name[] = "/tmp/kiln-test-XXXXXX";
    path_ = mkdtemp(name) == nullptr ? "" : name;
  }
  ShortFolder(const ShortFolder&) = delete;
  ShortFolder& operator=(const ShortFolder&) = delete;
  ~ShortFolder() {
    std::error_code error;
    if (!path_.empty()) std::filesystem::remove_all(path_, error);
  }

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace kiln

#endif  // KILN_TESTS_SUPPORT_SHORT_FOLDER_H_
