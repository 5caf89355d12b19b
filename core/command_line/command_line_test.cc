#include "core/command_line/command_line.h"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "core/command_line/flag_help.h"
#include "core/command_line/flag_range.h"
#include "gflags/gflags.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

DEFINE_int32(steps, 30, "denoising steps");
DEFINE_double(guidance, 0.99, "scale of the guidance");
DEFINE_uint64(seed, 1, "seed for the noise");
DEFINE_bool(messages, true, "draw messages");
DEFINE_string(out, "", "file to write");
FLAG_RANGE(steps, 0, 5'000'000);
FLAG_RANGE(guidance, -1, 100.5);

namespace dpipe {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::internal::CaptureStderr;
using ::testing::internal::CaptureStdout;
using ::testing::internal::GetCapturedStderr;
using ::testing::internal::GetCapturedStdout;

struct Outcome {
  int code = -1;
  bool has_run = false;
  std::string out, err;
};

class CommandLineTest : public ::testing::Test {
 protected:
  Outcome Run(std::vector<std::string> arguments, absl::Status result = absl::OkStatus()) {
    std::vector<char*> argv = {program_.data()};
    for (std::string& argument : arguments) argv.push_back(argument.data());
    Outcome outcome;
    CaptureStdout();
    CaptureStderr();
    outcome.code = RunCommand(static_cast<int>(argv.size()), argv.data(), command_, [&] {
      outcome.has_run = true;
      return result;
    });
    outcome.out = GetCapturedStdout();
    outcome.err = GetCapturedStderr();
    return outcome;
  }

  void ExpectWrong(const std::vector<std::string>& arguments, const std::string& message) {
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.code, 2) << message;
    EXPECT_EQ(outcome.err, "draw: " + message + "\n");
    EXPECT_FALSE(outcome.has_run);
  }

  std::string program_ = "bin/draw";
  Command command_ = {"draw", "Draws.\n", {{"How", {"steps", "guidance"}}}};
  gflags::FlagSaver saver_;
};

TEST_F(CommandLineTest, AllWaysToSetAFlag) {
  const Outcome outcome =
      Run({"--steps=3", "-guidance=0.5", "--seed", "9", "--nomessages", "--out=a=b"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(outcome.has_run);
  EXPECT_EQ(FLAGS_steps, 3);
  EXPECT_EQ(FLAGS_guidance, 0.5);
  EXPECT_EQ(FLAGS_seed, 9u);
  EXPECT_FALSE(FLAGS_messages);
  EXPECT_EQ(FLAGS_out, "a=b");
  EXPECT_EQ(Run({"--messages", "--output=c", "--guidance", "-1"}).code, 0);
  EXPECT_TRUE(FLAGS_messages);
  EXPECT_EQ(FLAGS_out, "c");
  EXPECT_EQ(FLAGS_guidance, -1);
}

TEST_F(CommandLineTest, WrongCommandLinesSayWhatIsWrong) {
  ExpectWrong({"--setps=3"}, "there is no flag --setps; did you mean --steps? See --help");
  ExpectWrong({"--nomesages"}, "there is no flag --nomesages; see --help");
  ExpectWrong({"--mesages"}, "there is no flag --mesages; did you mean --messages? See --help");
  ExpectWrong({"--tab_completion_word=a"}, "there is no flag --tab_completion_word; see --help");
  ExpectWrong({"--steps=many"}, "--steps=many: 'many' is not a whole number; see --help");
  ExpectWrong({"--steps=1.5"}, "--steps=1.5: '1.5' is not a whole number; see --help");
  ExpectWrong({"--steps="}, "--steps=: '' is not a whole number; see --help");
  ExpectWrong({"--seed=-1"}, "--seed=-1: '-1' is out of the range of uint64; see --help");
  ExpectWrong({"--steps=99999999999"},
              "--steps=99999999999: '99999999999' is out of the range of int32; see --help");
  ExpectWrong({"--guidance=x"}, "--guidance=x: 'x' is not a number; see --help");
  ExpectWrong({"--messages=maybe"}, "--messages=maybe: 'maybe' is not true or false; see --help");
  ExpectWrong({"--nomessages=1"}, "--nomessages takes no value; see --help");
  ExpectWrong({"--steps"}, "--steps has no value; see --help");
  ExpectWrong({"steps=3"}, "unexpected argument 'steps=3'; see --help");
  ExpectWrong({"--"}, "unexpected argument '--'; see --help");
}

TEST_F(CommandLineTest, NumbersOutOfRangeAreRefused) {
  ExpectWrong({"--steps=-1"}, "--steps=-1 must be at least 0; see --help");
  ExpectWrong({"--steps=5000001"}, "--steps=5000001 must be at most 5000000; see --help");
  EXPECT_EQ(Run({"--steps=5000000"}).code, 0);
  ExpectWrong({"--guidance=-1.5"}, "--guidance=-1.5 must be at least -1; see --help");
  ExpectWrong({"--guidance=1e9"}, "--guidance=1e+09 must be at most 100.5; see --help");
  for (const char* value : {"nan", "inf", "-inf"}) {
    ExpectWrong({absl::StrCat("--guidance=", value)},
                absl::StrCat("--guidance=", value, " must be a finite number; see --help"));
  }
}

TEST_F(CommandLineTest, HelpHasTheProgramsFlagsByGroup) {
  for (const char* flag : {"--help", "-h", "-help"}) {
    const Outcome outcome = Run({flag});
    EXPECT_EQ(outcome.code, 0);
    EXPECT_EQ(outcome.err, "");
    EXPECT_FALSE(outcome.has_run);
    EXPECT_EQ(outcome.out.find("Draws.\n\nHow:\n  --steps=30 "), 0u) << outcome.out;
    EXPECT_THAT(outcome.out, HasSubstr("\n  --guidance=0.99 "));
    EXPECT_THAT(outcome.out, HasSubstr("\nOther flags:\n  --messages=true "));
    EXPECT_THAT(outcome.out, HasSubstr("  --out                     file to write [--output]\n"));
    EXPECT_THAT(outcome.out, Not(HasSubstr("tab_completion")));
  }
}

TEST_F(CommandLineTest, HelpBeginsWithTheMostUsedFlags) {
  command_.most_used = {"out", "steps"};
  const std::string help = Run({"--help"}).out;
  EXPECT_EQ(help.find("Draws.\n\nMost used:\n  --out  "), 0u) << help;
  EXPECT_THAT(help, HasSubstr("\n  --steps=30 "));
  EXPECT_THAT(help, HasSubstr("\n\nHow:\n  --guidance=0.99 ")) << "steps is not shown again";
  command_.most_used = {"steps", "guidance"};
  EXPECT_THAT(Run({"--help"}).out, Not(HasSubstr("How:"))) << "nothing is left of the group";
}

TEST_F(CommandLineTest, AMostUsedFlagMustExist) {
  command_.most_used = {"out", "stepz"};
  EXPECT_DEATH(HelpText(command_), "flag --stepz does not exist");
}

TEST_F(CommandLineTest, StatusesBecomeExitCodes) {
  EXPECT_EQ(Run({}, absl::NotFoundError("no file")).code, 1);
  EXPECT_EQ(Run({}, absl::NotFoundError("no file")).err, "draw: no file\n");
  EXPECT_EQ(Run({}, absl::ResourceExhaustedError("too large")).code, 3);
  EXPECT_EQ(Run({}, CheckAtLeast({{"seed", 1, 0}, {"steps", 0, 1}})).code, 2);
  EXPECT_EQ(Run({}, CheckAtLeast({{"seed", 1, 0}, {"steps", 0, 1}})).err,
            "draw: --steps=0 must be at least 1; see --help\n");
  EXPECT_EQ(Run({}, CheckChoice("dtype", "fp8", {"fp32", "fp16", "bf16"})).err,
            "draw: unknown --dtype=fp8; expected fp32, fp16 or bf16; see --help\n");
  EXPECT_EQ(Run({}, CheckChoice("dtype", "bf61", {"fp32", "fp16", "bf16"})).err,
            "draw: unknown --dtype=bf61; expected fp32, fp16 or bf16; did you mean bf16? See "
            "--help\n");
  EXPECT_EQ(Run({}, RequireFlag("out", "")).err, "draw: --out is missing; see --help\n");
  EXPECT_EQ(Run({}, AsCommandLineError(absl::NotFoundError("no such sampler"))).code, 2);
  EXPECT_EQ(Run({"--setps=3"}).code, 2);
}

}  // namespace
}  // namespace dpipe

namespace dpipe {

namespace {

using ::testing::ExitedWithCode;

// Prints to `fd` in a child process.
[[noreturn]] void PrintTo(int fd, int code) {
  dup2(fd, STDOUT_FILENO);
  std::printf("text\n");
  std::_Exit(FinishStandardOutput("draw", code));
}

TEST(StandardOutputTest, AFullDiskIsAnError) {
  const int full = open("/dev/full", O_WRONLY);
  ASSERT_GE(full, 0);
  EXPECT_EXIT(PrintTo(full, 0), ExitedWithCode(1),
              "^draw: cannot write standard output: No space left on device\n");
  EXPECT_EXIT(PrintTo(full, 3), ExitedWithCode(3), "cannot write standard output");
  // The error of an earlier write counts too.
  const auto flush_first = [full] {
    dup2(full, STDOUT_FILENO);
    std::printf("text\n");
    std::fflush(stdout);
    std::_Exit(FinishStandardOutput("draw", 0));
  };
  EXPECT_EXIT(flush_first(), ExitedWithCode(1), "No space left on device");
}

TEST(StandardOutputTest, ReaderMayDisappear) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  const auto print = [&ends] {
    signal(SIGPIPE, SIG_IGN);
    PrintTo(ends[1], 0);
  };
  EXPECT_EXIT(print(), ExitedWithCode(0), "^$");
}

TEST(StandardOutputTest, FilesDoNotReuseItsDescriptor) {
  const auto close_first = [] {
    close(STDOUT_FILENO);
    KeepStandardDescriptors();
    if (open("/dev/null", O_WRONLY) == STDOUT_FILENO) std::_Exit(9);
    std::printf("text\n");
    std::_Exit(FinishStandardOutput("draw", 0));
  };
  EXPECT_EXIT(close_first(), ExitedWithCode(1), "cannot write standard output");
}

}  // namespace

}  // namespace dpipe
