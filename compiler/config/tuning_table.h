#ifndef KILN_COMPILER_CONFIG_TUNING_TABLE_H_
#define KILN_COMPILER_CONFIG_TUNING_TABLE_H_

#include <functional>
#include <map>
#include <string>

namespace kiln {

// Decisions of earlier measurements: the key of a kernel's configurations and
// the winner among them, both as schedule/config_space.h writes them.
using TuningTable = std::map<std::string, std::string, std::less<>>;

}  // namespace kiln

#endif  // KILN_COMPILER_CONFIG_TUNING_TABLE_H_
