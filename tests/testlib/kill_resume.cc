#include "tests/testlib/kill_resume.h"

#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/files/file.h"
#include "core/base/philox.h"
#include "core/train/checkpoint/checkpoint_reader.h"
#include "core/train/checkpoint/checkpoint_writer.h"
#include "nlohmann/json.hpp"
#include "tests/testlib/running_program.h"

namespace dpipe::testlib {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// The paths of a run's files; see //tools:train.
struct RunFiles {
  std::string out;
  std::string model() const { return out + "/model"; }
  std::string checkpoints() const { return out + "/checkpoints"; }
  std::string log() const { return out + "/log.jsonl"; }
  std::string console() const { return out + ".console"; }
};

ProgramOptions TrainProgram(const KillResumeOptions& options, const RunFiles& files,
                            const std::string& resume) {
  ProgramOptions program;
  program.program = options.train_program;
  program.arguments = options.flags;
  program.arguments.push_back("--out=" + files.out);
  if (!resume.empty()) program.arguments.push_back("--resume=" + resume);
  program.out = program.err = files.console();
  return program;
}

bool IsWriting(const std::string& checkpoints) {
  std::error_code error;
  for (fs::directory_iterator it(checkpoints, error), end; !error && it != end;
       it.increment(error)) {
    if (absl::EndsWith(it->path().filename().string(), kUnfinishedSuffix)) return true;
  }
  return false;
}

// Returns the first complete checkpoint in the folder, or "" if there is none yet.
std::string FirstCheckpoint(const std::string& checkpoints) {
  std::error_code error;
  std::string first;
  for (fs::directory_iterator it(checkpoints, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    const bool is_one = absl::StartsWith(name, "step_") && name.find('.') == std::string::npos;
    if (is_one && (first.empty() || it->path().string() < first)) first = it->path().string();
  }
  return first;
}

struct LoggedStep {
  int64_t step = 0;
  double loss = 0;
};

// Reads the lines about steps, except a truncated one at the end.
absl::StatusOr<std::vector<LoggedStep>> ReadLog(const std::string& path) {
  DPIPE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  std::vector<LoggedStep> steps;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("loss")) continue;
    if (!json["step"].is_number_integer() || !json["loss"].is_number()) {
      return absl::DataLossError(absl::StrCat(path, ": a line without a step and a loss: ", line));
    }
    steps.push_back({json["step"].get<int64_t>(), json["loss"].get<double>()});
  }
  return steps;
}

absl::Status CompareLogs(const std::vector<LoggedStep>& expected,
                         const std::vector<LoggedStep>& actual) {
  for (size_t i = 0; i < std::min(expected.size(), actual.size()); ++i) {
    if (expected[i].step != actual[i].step) {
      return absl::DataLossError(absl::StrCat("line ", i + 1, " of the log is for step ",
                                              actual[i].step, ", not ", expected[i].step));
    }
    if (std::memcmp(&expected[i].loss, &actual[i].loss, sizeof(double)) != 0) {
      return absl::DataLossError(absl::StrFormat("step %d: the loss is %.17g, not %.17g",
                                                 expected[i].step, actual[i].loss,
                                                 expected[i].loss));
    }
  }
  if (expected.size() == actual.size()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("the log has ", actual.size(), " steps, not ", expected.size()));
}

absl::StatusOr<std::map<std::string, std::string>> Weights(const std::string& model) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(model)) {
    if (entry.path().extension() != ".safetensors") continue;
    const std::string name = fs::relative(entry.path(), model).string();
    DPIPE_ASSIGN_OR_RETURN(files[name], ReadFile(entry.path().string()));
  }
  if (files.empty()) return absl::NotFoundError(absl::StrCat(model, " has no weights"));
  return files;
}

absl::Status CompareModels(const std::string& expected, const std::string& actual) {
  DPIPE_ASSIGN_OR_RETURN(const auto expected_files, Weights(expected));
  DPIPE_ASSIGN_OR_RETURN(const auto actual_files, Weights(actual));
  for (const auto& [name, bytes] : expected_files) {
    const auto it = actual_files.find(name);
    if (it == actual_files.end() || it->second != bytes) {
      return absl::DataLossError(
          absl::StrCat(actual, "/", name, " differs from the file in ", expected));
    }
  }
  return absl::OkStatus();
}

absl::Status UnexpectedExit(const RunningProgram& process, const RunFiles& files) {
  return absl::InternalError(absl::StrCat("the program ended with exit code ", process.exit_code(),
                                          ": ", ReadFile(files.console()).value_or("")));
}

class Experiment {
 public:
  explicit Experiment(const KillResumeOptions& options)
      : options_(options),
        random_(options.seed, 0, 0, RandomPurpose::kTest),
        reference_{options.folder + "/undisturbed"},
        killed_{options.folder + "/killed"} {}

  absl::StatusOr<KillResumeReport> Run() {
    fs::remove_all(options_.folder);
    DPIPE_RETURN_IF_ERROR(MakeFolder(options_.folder));
    DPIPE_RETURN_IF_ERROR(RunUndisturbed());
    while (report_.kills < options_.num_kills) DPIPE_RETURN_IF_ERROR(RunKilled());
    return report_;
  }

 private:
  // Copies the first checkpoint, because the program removes older ones later.
  absl::Status RunUndisturbed() {
    RunningProgram process(TrainProgram(options_, reference_, ""));
    while (!process.Poll() && FirstCheckpoint(reference_.checkpoints()).empty()) Pause(1);
    const std::string first = FirstCheckpoint(reference_.checkpoints());
    if (first.empty()) return UnexpectedExit(process, reference_);
    start_ = options_.folder + "/start/" + fs::path(first).filename().string();
    fs::create_directories(fs::path(start_).parent_path());
    fs::copy(first, start_, fs::copy_options::recursive);
    process.Wait();
    if (process.exit_code() != 0) return UnexpectedExit(process, reference_);
    DPIPE_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(start_));
    start_step_ = checkpoint->info().step;
    DPIPE_ASSIGN_OR_RETURN(log_, ReadLog(reference_.log()));
    report_.steps = static_cast<int64_t>(log_.size());
    options_.log(absl::StrCat("undisturbed: ", log_.size(), " steps, first checkpoint at step ",
                              start_step_));
    return absl::OkStatus();
  }

  // Runs from the first checkpoint to the end, with kills until there are enough.
  absl::Status RunKilled() {
    for (const auto& entry : fs::directory_iterator(options_.folder)) {
      const std::string name = entry.path().filename().string();
      if (absl::StartsWith(name, "killed")) fs::remove_all(entry.path());
    }
    fs::create_directories(killed_.checkpoints());
    fs::copy(start_, killed_.checkpoints() + "/" + fs::path(start_).filename().string(),
             fs::copy_options::recursive);
    fs::copy(reference_.log(), killed_.log());  // its later steps must be removed
    for (bool done = false; !done;) {
      if (report_.kills == options_.num_kills) {
        RunningProgram process(TrainProgram(options_, killed_, "auto"));
        process.Wait();
        if (process.exit_code() != 0) return UnexpectedExit(process, killed_);
        break;
      }
      DPIPE_ASSIGN_OR_RETURN(done, RunUntilKilled());
    }
    DPIPE_ASSIGN_OR_RETURN(const auto log, ReadLog(killed_.log()));
    DPIPE_RETURN_IF_ERROR(CompareLogs(log_, log));
    DPIPE_RETURN_IF_ERROR(CompareModels(reference_.model(), killed_.model()));
    ++report_.runs;
    options_.log(absl::StrCat("run ", report_.runs, " is complete and equal, after ", report_.kills,
                              " kills in total"));
    return absl::OkStatus();
  }

  // Returns true if the run is complete.
  absl::StatusOr<bool> RunUntilKilled() {
    const bool aims_at_saving = report_.kills % 2 == 1;
    const Clock::time_point end =
        Clock::now() + std::chrono::microseconds(random_.NextBelow(options_.max_life_ms * 1000));
    RunningProgram process(TrainProgram(options_, killed_, "auto"));
    while (!process.Poll() && Clock::now() < end) Pause(1);
    if (aims_at_saving) {
      while (!process.Poll() && !IsWriting(killed_.checkpoints())) {
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
      const auto moment = random_.NextBelow(options_.max_saving_ms * 1000);
      std::this_thread::sleep_for(std::chrono::microseconds(moment));
    }
    process.Kill();
    if (process.exit_code() == 0) return true;
    if (process.exit_code() != 128 + SIGKILL) return UnexpectedExit(process, killed_);
    ++report_.kills;
    if (IsWriting(killed_.checkpoints())) ++report_.while_saving;
    DPIPE_RETURN_IF_ERROR(CountSteps());
    return false;
  }

  absl::Status CountSteps() {
    const std::string console = ReadFile(killed_.console()).value_or("");
    // The steps of this life come after the checkpoint from which it reports to resume.
    const size_t at = console.find("step_");
    const int64_t from = at == std::string::npos ? -1 : std::atoll(console.c_str() + at + 5);
    DPIPE_ASSIGN_OR_RETURN(const auto log, ReadLog(killed_.log()));
    const int64_t until = log.empty() ? 0 : log.back().step;
    if (from < 0 || until <= from) ++report_.before_a_step;
    int64_t kept = 0;
    for (const auto& entry : fs::directory_iterator(killed_.checkpoints())) {
      const std::string name = entry.path().filename().string();
      if (!absl::StartsWith(name, "step_") || name.find('.') != std::string::npos) continue;
      kept = std::max<int64_t>(kept, std::atoll(name.c_str() + 5));
    }
    report_.steps_again += std::max<int64_t>(0, until - kept);
    options_.log(absl::StrFormat("kill %d: from step %d to step %d, newest checkpoint %d",
                                 report_.kills, from, until, kept));
    return absl::OkStatus();
  }

  static void Pause(int milliseconds) {
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
  }

  const KillResumeOptions& options_;
  RandomStream random_;
  const RunFiles reference_, killed_;
  std::string start_;  // the first checkpoint
  int64_t start_step_ = 0;
  std::vector<LoggedStep> log_;  // of the undisturbed run
  KillResumeReport report_;
};

}  // namespace

absl::StatusOr<KillResumeReport> KillAndResume(const KillResumeOptions& options) {
  return Experiment(options).Run();
}

}  // namespace dpipe::testlib
