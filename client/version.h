#ifndef KILN_CLIENT_VERSION_H_
#define KILN_CLIENT_VERSION_H_

namespace kiln {

// The version of everything that //client builds. The daemon reports its own.
inline constexpr char kVersion[] = "0.1.0";

}  // namespace kiln

#endif  // KILN_CLIENT_VERSION_H_
