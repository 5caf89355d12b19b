#include "tests/testlib/kill_ranks.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/files/file.h"
#include "core/base/philox.h"
#include "tests/testlib/process_job.h"

namespace dpipe::testlib {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void Pause() { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }

// A process that joins after all others have ended cannot know the reason.
bool JoinedTooLate(const std::string& output) {
  return absl::StrContains(output, "cannot reach the job's store (on process 0)");
}

// A process has no name before it has joined the store.
bool NeverJoined(const std::string& output, int gone) {
  return absl::StrContains(output, absl::StrCat("missing: process ", gone)) ||
         (gone == 0 && absl::StrContains(output, "the job's store (on process 0)"));
}

// True if a process that waited for rank `gone` names it, in the words of any part that may notice.
bool Names(const std::string& output, int gone) {
  return absl::StrContains(output, absl::StrCat("rank ", gone, " (pid ")) ||
         NeverJoined(output, gone);
}

class Experiment {
 public:
  explicit Experiment(const KillRanksOptions& options)
      : options_(options), random_(options.seed, 0, 0, RandomPurpose::kTest) {}

  absl::StatusOr<KillRanksReport> Run() {
    fs::remove_all(options_.folder);
    DPIPE_RETURN_IF_ERROR(MakeCheckpoint());
    for (int i = 0; i < options_.num_kills; ++i) DPIPE_RETURN_IF_ERROR(OneRun(i));
    if (report_.kills > 0) report_.mean_death_s /= report_.kills;
    if (report_.freezes > 0) report_.mean_silence_s /= report_.freezes;
    return report_;
  }

 private:
  // Makes the job in a new folder.
  absl::StatusOr<std::unique_ptr<ProcessJob>> MakeJob(const std::string& folder,
                                                      const std::vector<std::string>& more_flags) {
    fs::remove_all(folder);
    DPIPE_RETURN_IF_ERROR(MakeFolder(folder));
    ProcessJobOptions options;
    options.program = options_.train_program;
    options.flags = options_.flags;
    options.flags.insert(options.flags.end(), more_flags.begin(), more_flags.end());
    options.flags.push_back(absl::StrCat("--out=", folder, "/run"));
    options.num_processes = options_.num_processes;
    options.consoles = absl::StrCat(folder, "/console");
    return ProcessJob::Create(options);
  }

  // Trains a short run, from whose checkpoint the killed runs resume.
  absl::Status MakeCheckpoint() {
    const std::string folder = absl::StrCat(options_.folder, "/start");
    DPIPE_ASSIGN_OR_RETURN(const auto job, MakeJob(folder, {"--minutes=0.001"}));
    job->StartAll();
    for (int i = 0; i < options_.num_processes; ++i) {
      if (job->ExitCode(i) != 0) return Wrong(*job, i, "could not train");
    }
    // The newest: their names contain the step, with leading zeros.
    for (const auto& entry : fs::directory_iterator(folder + "/run/checkpoints")) {
      checkpoint_ = std::max(checkpoint_, entry.path().string());
    }
    if (!checkpoint_.empty()) return absl::OkStatus();
    return absl::NotFoundError(absl::StrCat(folder, ": the initial run left no checkpoint"));
  }

  // Waits for the first line of the log, which means one step.
  absl::Status AwaitStep(ProcessJob* job, const std::string& log) const {
    const Clock::time_point start = Clock::now();
    std::error_code none;
    while (!fs::exists(log, none) || fs::file_size(log, none) == 0) {
      if (job->program(0).Poll()) return Wrong(*job, 0, "ended before its first step");
      if (SecondsSince(start) > options_.step_deadline_ms / 1e3) {
        return Wrong(*job, 0,
                     absl::StrCat("trained no step within ", options_.step_deadline_ms, " ms"));
      }
      Pause();
    }
    return absl::OkStatus();
  }

  absl::Status OneRun(int number) {
    const std::string folder = options_.folder + "/killed";
    const bool trains = number < options_.num_while_training;
    std::vector<std::string> more_flags;
    if (trains || number % 2 == 0) more_flags.push_back("--resume=" + checkpoint_);
    if (trains) more_flags.push_back("--checkpoint_every=100000");
    DPIPE_ASSIGN_OR_RETURN(const auto job, MakeJob(folder, more_flags));
    const bool freezes = options_.freeze_every > 0 && (number + 1) % options_.freeze_every == 0;
    const int gone = static_cast<int>(random_.NextBelow(options_.num_processes));
    const auto life = std::chrono::microseconds(random_.NextBelow(options_.max_life_ms * 1000));
    job->StartAll();
    if (trains) DPIPE_RETURN_IF_ERROR(AwaitStep(job.get(), folder + "/run/log.jsonl"));
    std::this_thread::sleep_for(life);
    if (job->program(gone).Poll()) return Wrong(*job, gone, "ended before it was killed");
    job->program(gone).Signal(freezes ? SIGSTOP : SIGKILL);
    const Clock::time_point start = Clock::now();
    const double deadline_s =
        (freezes ? options_.silence_deadline_ms : options_.death_deadline_ms) / 1e3;
    for (int i = 0; i < options_.num_processes; ++i) {
      while (i != gone && !job->program(i).Poll()) {
        if (SecondsSince(start) > deadline_s) return Wrong(*job, i, "did not end in time");
        Pause();
      }
    }
    return Count(job.get(), gone, freezes, SecondsSince(start), life, trains);
  }

  absl::Status Count(ProcessJob* job, int gone, bool freezes, double took_s,
                     std::chrono::microseconds life, bool trains) {
    bool named = false, never_joined = false, named_instruction = false, joined_too_late = false;
    for (int i = 0; i < options_.num_processes; ++i) {
      if (i == gone) continue;
      if (job->program(i).exit_code() != 1) {
        return Wrong(*job, i, absl::StrCat("ended with exit code ", job->program(i).exit_code()));
      }
      const std::string output = job->Output(i);
      joined_too_late = joined_too_late || JoinedTooLate(output);
      if (!Names(output, gone) && !JoinedTooLate(output)) {
        return Wrong(*job, i, absl::StrCat("does not name rank ", gone));
      }
      named = named || Names(output, gone);
      never_joined = never_joined || NeverJoined(output, gone);
      named_instruction = named_instruction || absl::StrContains(output, ", instruction ");
    }
    // Others may have joined too late, but at least one was there.
    if (!named) return Wrong(*job, gone == 0 ? 1 : 0, absl::StrCat("does not name rank ", gone));
    (freezes ? report_.freezes : report_.kills) += 1;
    report_.before_all_joined += never_joined ? 1 : 0;
    report_.joined_too_late += joined_too_late ? 1 : 0;
    report_.while_training += named_instruction ? 1 : 0;
    double& mean = freezes ? report_.mean_silence_s : report_.mean_death_s;
    double& longest = freezes ? report_.longest_silence_s : report_.longest_death_s;
    mean += took_s;
    longest = std::max(longest, took_s);
    options_.log(absl::StrFormat("%s rank %d after %.2f s%s: all others had ended %.2f s later%s",
                                 freezes ? "froze" : "killed", gone, life.count() / 1e6,
                                 trains ? " of training" : "", took_s,
                                 never_joined        ? ", before all had joined"
                                 : named_instruction ? ", naming the instruction"
                                                     : ", before training"));
    return absl::OkStatus();
  }

  absl::Status Wrong(const ProcessJob& job, int process, const std::string& what) const {
    return absl::InternalError(
        absl::StrCat("rank ", process, " ", what, "; its output:\n", job.Output(process)));
  }

  const KillRanksOptions& options_;
  RandomStream random_;
  std::string checkpoint_;
  KillRanksReport report_;
};

}  // namespace

absl::StatusOr<KillRanksReport> KillRanks(const KillRanksOptions& options) {
  return Experiment(options).Run();
}

}  // namespace dpipe::testlib
