// NVRTC's C interface, as far as Kiln uses it, for the emulator: a "cubin" is a
// shared object that g++ made of the translated source.

#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/support/cuda_emulator/device_text.h"
#include "tests/support/cuda_emulator/translate.h"

namespace {

struct Program {
  std::string source, image, log;
};

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// A misaligned access traps, as it does on a GPU. No symbols that are unique in the
// process: a module's variables are its own.
constexpr char kFlags[] =
    "-std=c++17 -O1 -w -fPIC -shared -fno-exceptions -ffp-contract=off "
    "-fno-strict-aliasing -fno-gnu-unique -D_GLIBCXX_INCLUDE_NEXT_C_HEADERS "
    "-mf16c -mfma -fsanitize=alignment "
    "-fsanitize-undefined-trap-on-error";

bool Build(Program& program) {
  std::string at =
      std::filesystem::temp_directory_path() / "kiln-emulator-XXXXXX";
  if (mkdtemp(at.data()) == nullptr) return false;
  std::ofstream(at + "/k.cc") << kiln_emulator::kDeviceText
                              << kiln_emulator::TranslateToHost(program.source);
  const std::string command = std::string("g++ ") + kFlags + " -o " + at +
                              "/k.so " + at + "/k.cc 2> " + at + "/log";
  const bool built = std::system(command.c_str()) == 0;
  program.image = Contents(at + "/k.so");
  if (!built) program.log = Contents(at + "/log");
  for (const char* name : {"/k.cc", "/k.so", "/log"})
    unlink((at + name).c_str());
  rmdir(at.c_str());
  return built;
}

}  // namespace

extern "C" {

int nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return 0;
}
const char* nvrtcGetErrorString(int code) {
  return code == 0 ? "NVRTC_SUCCESS" : "NVRTC_ERROR_COMPILATION";
}
int nvrtcCreateProgram(void** program, const char* source, const char*, int,
                       const char* const*, const char* const*) {
  *program = new Program{source, "", ""};
  return 0;
}
int nvrtcDestroyProgram(void** program) {
  delete static_cast<Program*>(*program);
  *program = nullptr;
  return 0;
}
int nvrtcCompileProgram(void* program, int, const char* const*) {
  return Build(*static_cast<Program*>(program)) ? 0 : 6;
}
int nvrtcGetCUBINSize(void* program, size_t* bytes) {
  *bytes = static_cast<Program*>(program)->image.size();
  return 0;
}
int nvrtcGetCUBIN(void* program, char* to) {
  const std::string& image = static_cast<Program*>(program)->image;
  std::memcpy(to, image.data(), image.size());
  return 0;
}
int nvrtcGetProgramLogSize(void* program, size_t* bytes) {
  *bytes = static_cast<Program*>(program)->log.size() + 1;
  return 0;
}
int nvrtcGetProgramLog(void* program, char* to) {
  const std::string& log = static_cast<Program*>(program)->log;
  std::memcpy(to, log.c_str(), log.size() + 1);
  return 0;
}

}  // extern "C"
