#ifndef KILN_PROTO_BASE_COMMAND_LINE_H_
#define KILN_PROTO_BASE_COMMAND_LINE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

// Reads the command line of a program: for its *_main.cc, and for nobody else.
// In the lobby since programs of three rooms read one. The only file that knows
// CLI11, whose header costs seconds to compile and which throws.

namespace kiln {

// What a program, or one of its commands, takes. Each call names where a value
// goes; what stands there already is the default. The variables must outlive
// CommandLine::Parse.
class Arguments {
 public:
  struct Impl;  // in command_line.cc, over CLI11's classes
  explicit Arguments(std::unique_ptr<Impl> impl);
  ~Arguments();
  Arguments(Arguments&&) = delete;

  // An option with a value. `names`: "--socket", or "-o,--output".
  void Option(absl::string_view names, std::string& value,
              absl::string_view help);
  void Option(absl::string_view names, std::optional<std::string>& value,
              absl::string_view help);
  void Option(absl::string_view names, int64_t& value, absl::string_view help);
  void Option(absl::string_view names, std::optional<int64_t>& value,
              absl::string_view help);
  void Option(absl::string_view names, double& value, absl::string_view help);
  // May be given any number of times; each adds to `values`.
  void Option(absl::string_view names, std::vector<std::string>& values,
              absl::string_view help);
  // One of `choices`; anything else is a fault.
  void Choice(absl::string_view names, std::string& value,
              const std::vector<std::string>& choices, absl::string_view help);
  // An option without a value: sets `value` to true.
  void Flag(absl::string_view names, bool& value, absl::string_view help);

  // A word without dashes, by its place.
  enum class Due { kOptional, kRequired };
  void Word(absl::string_view name, std::string& value, Due due,
            absl::string_view help);
  // All further words.
  void Words(absl::string_view name, std::vector<std::string>& values, Due due,
             absl::string_view help);

  // "--socket", "--output", ...; in the order they were named.
  std::vector<std::string> LongNames() const;

 private:
  const std::unique_ptr<Impl> impl_;
};

class CommandLine {
 public:
  struct Description {
    std::string program;  // "kilnd"
    std::string what;     // one sentence
    std::string footer;   // below the help: exit codes, environment
    std::string version;  // what --version prints; none when empty
  };
  explicit CommandLine(const Description& description);
  ~CommandLine();
  CommandLine(CommandLine&&) = delete;

  // What the program takes; with commands, what each of them takes as well.
  Arguments& arguments();

  // A command, a plain word. Once there is one, exactly one is due.
  Arguments& AddCommand(const std::string& name, const std::string& help);

  // Fills the variables. Empty when the program shall go on, else the code it
  // shall exit with: 0 when help or version was asked for, 2 when the line was
  // used wrongly. Both have been printed, to stdout and to stderr.
  std::optional<int> Parse(int argc, const char* const* argv);

  // The command that was given; empty before Parse and without commands.
  std::string command() const;

  // Each command and its own long options, in the order they were added.
  std::vector<std::pair<std::string, std::vector<std::string>>> Commands()
      const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace kiln

#endif  // KILN_PROTO_BASE_COMMAND_LINE_H_
