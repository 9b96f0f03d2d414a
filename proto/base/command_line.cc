#include "proto/base/command_line.h"

#include <iostream>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "proto/base/status.h"

namespace kiln {

struct Arguments::Impl {
  CLI::App* app;  // outlives this
};

namespace {

template <typename T>
CLI::Option* AddTo(CLI::App* app, absl::string_view names, T& value,
                   absl::string_view help) {
  return app->add_option(std::string(names), value, std::string(help));
}

// Says what was wrong, in a line. The exit code.
int Refuse(const CLI::App& app, absl::string_view what,
           absl::string_view help) {
  std::cerr << app.get_name() << ": " << ReasonName(ErrorReason::kBadOption)
            << ": " << what << "; " << help << "\n";
  return 2;
}

}  // namespace

Arguments::Arguments(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Arguments::~Arguments() = default;

// The defaults that help shows are those that stand in the variables.
void Arguments::Option(absl::string_view names, std::string& value,
                       absl::string_view help) {
  CLI::Option* option = AddTo(impl_->app, names, value, help);
  if (!value.empty()) option->capture_default_str();
}

void Arguments::Option(absl::string_view names,
                       std::optional<std::string>& value,
                       absl::string_view help) {
  AddTo(impl_->app, names, value, help);
}

void Arguments::Option(absl::string_view names, int64_t& value,
                       absl::string_view help) {
  AddTo(impl_->app, names, value, help)->capture_default_str();
}

void Arguments::Option(absl::string_view names, std::optional<int64_t>& value,
                       absl::string_view help) {
  AddTo(impl_->app, names, value, help);
}

void Arguments::Option(absl::string_view names, double& value,
                       absl::string_view help) {
  AddTo(impl_->app, names, value, help)->capture_default_str();
}

void Arguments::Option(absl::string_view names,
                       std::vector<std::string>& values,
                       absl::string_view help) {
  // Else it would take the words that follow, too.
  AddTo(impl_->app, names, values, help)->allow_extra_args(false);
}

void Arguments::Choice(absl::string_view names, std::string& value,
                       const std::vector<std::string>& choices,
                       absl::string_view help) {
  AddTo(impl_->app, names, value, help)
      ->capture_default_str()
      ->check(CLI::IsMember(choices));
}

void Arguments::Flag(absl::string_view names, bool& value,
                     absl::string_view help) {
  impl_->app->add_flag(std::string(names), value, std::string(help));
}

void Arguments::Word(absl::string_view name, std::string& value, Due due,
                     absl::string_view help) {
  AddTo(impl_->app, name, value, help)->required(due == Due::kRequired);
}

void Arguments::Words(absl::string_view name, std::vector<std::string>& values,
                      Due due, absl::string_view help) {
  AddTo(impl_->app, name, values, help)->required(due == Due::kRequired);
}

std::vector<std::string> Arguments::LongNames() const {
  std::vector<std::string> names;
  for (const CLI::Option* option : impl_->app->get_options()) {
    for (const std::string& name : option->get_lnames()) {
      names.push_back(absl::StrCat("--", name));
    }
  }
  return names;
}

struct CommandLine::Impl {
  explicit Impl(const Description& description)
      : app(description.what, description.program) {
    app.footer(description.footer);
    if (!description.version.empty()) {
      app.set_version_flag("--version", description.version);
    }
    top = std::make_unique<Arguments>(
        std::make_unique<Arguments::Impl>(Arguments::Impl{&app}));
  }

  CLI::App app;
  std::unique_ptr<Arguments> top;
  std::vector<std::pair<std::string, std::unique_ptr<Arguments>>> commands;
};

CommandLine::CommandLine(const Description& description)
    : impl_(std::make_unique<Impl>(description)) {}

CommandLine::~CommandLine() = default;

Arguments& CommandLine::arguments() { return *impl_->top; }

Arguments& CommandLine::AddCommand(const std::string& name,
                                   const std::string& help) {
  impl_->app.require_subcommand(1);
  // The program's own options may also stand behind the command.
  impl_->app.fallthrough();
  CLI::App* command = impl_->app.add_subcommand(name, help);
  impl_->commands.emplace_back(
      name, std::make_unique<Arguments>(
                std::make_unique<Arguments::Impl>(Arguments::Impl{command})));
  return *impl_->commands.back().second;
}

std::optional<int> CommandLine::Parse(int argc, const char* const* argv) {
  // CLI11 throws; it stops here.
  try {
    impl_->app.parse(argc, argv);
  } catch (const CLI::ParseError& end) {
    // A word that is no command: CLI11 would only say that one is required.
    const std::vector<std::string> left = impl_->app.remaining();
    if (!impl_->commands.empty() && command().empty() && !left.empty() &&
        end.get_exit_code() != 0 && left[0].front() != '-') {
      return Refuse(impl_->app, absl::StrCat(left[0], ": no such command"),
                    "--help lists them");
    }
    // Thrown for --help and --version too, with code 0.
    if (end.get_exit_code() == 0) {
      return impl_->app.exit(end, std::cout, std::cerr);
    }
    return Refuse(impl_->app, end.what(), "see --help");
  }
  return std::nullopt;
}

std::string CommandLine::command() const {
  const std::vector<CLI::App*> given = impl_->app.get_subcommands();
  return given.empty() ? "" : given[0]->get_name();
}

std::vector<std::pair<std::string, std::vector<std::string>>>
CommandLine::Commands() const {
  std::vector<std::pair<std::string, std::vector<std::string>>> all;
  for (const auto& [name, arguments] : impl_->commands) {
    all.emplace_back(name, arguments->LongNames());
  }
  return all;
}

}  // namespace kiln
