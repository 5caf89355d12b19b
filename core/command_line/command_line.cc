#include "core/command_line/command_line.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/host/bound_spinning.h"
#include "core/base/host/out_of_memory.h"
#include "core/base/text/did_you_mean.h"
#include "core/command_line/flag_help.h"
#include "core/command_line/flag_range.h"

namespace dpipe {

namespace {

constexpr char kCommandLineError[] = "dpipe.command_line";
constexpr int kWrongCommandLine = 2;

// Returns "fp32, bf16 or int8".
std::string JoinChoices(const std::vector<std::string>& choices) {
  std::string text;
  for (size_t i = 0; i < choices.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : i + 1 == choices.size() ? " or " : ", ", choices[i]);
  }
  return text;
}

int ParseAndRun(const std::vector<std::string>& arguments, const Command& command,
                const std::function<absl::StatusOr<int>()>& run) {
  const absl::StatusOr<bool> wants_help = ParseFlags(arguments);
  if (!wants_help.ok()) return ExitCode(command.name, wants_help.status());
  if (*wants_help) {
    std::fputs(HelpText(command).c_str(), stdout);
    return 0;
  }
  const absl::Status in_range = CheckFlagRanges();
  if (!in_range.ok()) return ExitCode(command.name, in_range);
  const absl::StatusOr<int> code = run();
  return code.ok() ? *code : ExitCode(command.name, code.status());
}

}  // namespace

int RunCommand(int argc, char** argv, const Command& command,
               const std::function<absl::Status()>& run) {
  return RunCommandWithCode(argc, argv, command, [&run]() -> absl::StatusOr<int> {
    DPIPE_RETURN_IF_ERROR(run());
    return 0;
  });
}

int RunCommandWithCode(int argc, char** argv, const Command& command,
                       const std::function<absl::StatusOr<int>()>& run) {
  BoundSpinning(argv);
  KeepStandardDescriptors();
  // Never deleted: threads may allocate memory until the very end of the process.
  EndWhenOutOfMemory((new std::string(command.name))->c_str());
  return FinishStandardOutput(command.name, ParseAndRun({argv + 1, argv + argc}, command, run));
}

int ExitCode(const std::string& name, const absl::Status& status) {
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s: %s\n", name.c_str(), std::string(status.message()).c_str());
  if (status.GetPayload(kCommandLineError)) return kWrongCommandLine;
  return absl::IsResourceExhausted(status) ? 3 : 1;
}

absl::Status CommandLineError(const std::string& message) {
  absl::Status status = absl::InvalidArgumentError(
      absl::StrCat(message, absl::EndsWith(message, "?") ? " See --help" : "; see --help"));
  status.SetPayload(kCommandLineError, absl::Cord());
  return status;
}

absl::Status AsCommandLineError(const absl::Status& status) {
  if (status.ok() || status.GetPayload(kCommandLineError)) return status;
  return CommandLineError(std::string(status.message()));
}

absl::Status CheckChoice(const std::string& name, const std::string& value,
                         const std::vector<std::string>& choices) {
  if (std::find(choices.begin(), choices.end(), value) != choices.end()) return absl::OkStatus();
  return CommandLineError(absl::StrCat("unknown --", name, "=", value, "; expected ",
                                       JoinChoices(choices), DidYouMean(value, choices, "")));
}

absl::Status RequireFlag(const std::string& name, const std::string& value) {
  if (!value.empty()) return absl::OkStatus();
  return CommandLineError(absl::StrCat("--", name, " is missing"));
}

absl::Status CheckAtLeast(const std::vector<LowerBound>& flags) {
  for (const LowerBound& flag : flags) {
    if (flag.value >= flag.min) continue;
    return CommandLineError(
        absl::StrCat("--", flag.name, "=", flag.value, " must be at least ", flag.min));
  }
  return absl::OkStatus();
}

namespace {

// Returns the error number of standard output, or 0 if there is none. The C library does not keep
// that of an earlier write, so one more line is written to see if the cause persists.
int OutputError() {
  if (std::fflush(stdout) != 0) return errno;
  if (std::ferror(stdout) == 0) return 0;
  return ::write(STDOUT_FILENO, "\n", 1) < 0 ? errno : EIO;
}

}  // namespace

void KeepStandardDescriptors() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // open takes the smallest free number. Standard output stays an error, since nobody can read
    // it.
    const int opened = ::open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY);
    if (opened >= 0 && opened != fd) ::close(opened);
  }
}

int FinishStandardOutput(const std::string& program, int code) {
  const int error = OutputError();
  if (error == 0 || error == EPIPE) return code;
  std::fprintf(stderr, "%s: cannot write standard output: %s\n", program.c_str(),
               std::strerror(error));
  return code == 0 ? 1 : code;
}

}  // namespace dpipe
