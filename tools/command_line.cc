#include "tools/command_line.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gflags/gflags.h"
#include "tools/word_wrap.h"

namespace dpipe::tools {
namespace {

constexpr char kCommandLineError[] = "dpipe.command_line";

bool FlagIsSet(const char* name) {
  return gflags::GetCommandLineFlagInfoOrDie(name).current_value == "true";
}

std::string HelpText(const Command& command) {
  constexpr size_t kIndent = 28;
  std::string text = absl::StrCat(command.usage, "\nFlags:\n");
  std::vector<gflags::CommandLineFlagInfo> flags;
  gflags::GetAllFlags(&flags);
  for (const gflags::CommandLineFlagInfo& flag : flags) {
    if (!absl::EndsWith(flag.filename, absl::StrCat("/", command.name, ".cc"))) continue;
    const bool is_text = flag.type == "string";
    const std::string value =
        is_text && flag.default_value.empty() ? "" : absl::StrCat("=", flag.default_value);
    text += WrapWords(absl::StrCat("  --", flag.name, value), kIndent, flag.description);
  }
  return text;
}

}  // namespace

int RunCommand(int argc, char** argv, const Command& command,
               const std::function<absl::Status()>& run) {
  gflags::SetUsageMessage(command.usage);
  gflags::ParseCommandLineNonHelpFlags(&argc, &argv, /*remove_flags=*/true);
  if (FlagIsSet("help") || FlagIsSet("helpshort")) {
    std::fputs(HelpText(command).c_str(), stdout);
    return 0;
  }
  gflags::HandleCommandLineHelpFlags();  // --helpfull and the like: ends the program
  if (argc > 1) {
    std::fprintf(stderr, "%s: unexpected argument '%s'; see --help\n", command.name, argv[1]);
    return 2;
  }
  return ExitCode(command.name, run());
}

int ExitCode(const char* name, const absl::Status& status) {
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s: %s\n", name, std::string(status.message()).c_str());
  if (status.GetPayload(kCommandLineError)) return 2;
  return absl::IsResourceExhausted(status) ? 3 : 1;
}

absl::Status CommandLineError(const std::string& message) {
  absl::Status status = absl::InvalidArgumentError(absl::StrCat(message, "; see --help"));
  status.SetPayload(kCommandLineError, absl::Cord());
  return status;
}

absl::Status CheckChoice(const char* name, const std::string& value,
                         const std::vector<std::string>& choices) {
  if (std::find(choices.begin(), choices.end(), value) != choices.end()) return absl::OkStatus();
  return CommandLineError(
      absl::StrCat("unknown --", name, "=", value, "; there are ", absl::StrJoin(choices, ", ")));
}

absl::Status RequireFlag(const char* name, const std::string& value) {
  if (!value.empty()) return absl::OkStatus();
  return CommandLineError(absl::StrCat("--", name, " is missing"));
}

}  // namespace dpipe::tools
