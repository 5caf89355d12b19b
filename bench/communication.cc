// Measures the speed of messages and collectives by size, for every transport that this machine
// has, or between the processes of a job.
//   bazel run -c opt //bench:communication -- --out=out/communication
//   torchrun --no-python --nproc-per-node=8 communication  # srun and mpirun work too
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "bench/comparison/describe_run.h"
#include "bench/transports/communication_ranks.h"
#include "bench/transports/communication_report.h"
#include "core/backend/connect_ranks.h"
#include "core/base/files/file.h"
#include "core/base/files/run_paths.h"
#include "core/base/files/scratch_folder.h"
#include "core/base/text/json.h"
#include "core/base/text/shell_quote.h"
#include "core/comm/rendezvous/job_address.h"
#include "core/comm/rendezvous/launch/local_launcher.h"
#include "core/comm/rendezvous/launch/process_exit.h"
#include "core/comm/rendezvous/process_group.h"
#include "core/command_line/command_line.h"
#include "core/command_line/flag_range.h"
#include "core/report/machine.h"
#include "core/tensor/cuda/system_driver.h"
#include "gflags/gflags.h"
#include "nlohmann/json.hpp"

DEFINE_string(transports, "gloo,in_process,nccl",
              "transports to measure, separated by commas. gloo: ranks are processes of this "
              "machine; in_process: ranks are threads, and a message is a reference; nccl: ranks "
              "are GPUs, if there are two or more. A job's processes use nccl if each has a GPU, "
              "else gloo");
DEFINE_string(ranks, "2,4",
              "numbers of ranks, separated by commas; nccl is also measured on all GPUs. A job "
              "has its own");
DEFINE_int64(min_bytes, 1024, "smallest tensor size in bytes");
DEFINE_int64(max_bytes, 256 << 20, "largest tensor size in bytes");
DEFINE_int32(factor, 4, "factor between consecutive sizes");
DEFINE_int32(milliseconds, 100,
             "time in milliseconds for which each size and kind of traffic is repeated");
DEFINE_string(out, "", "folder for results.json and table.md; empty: out/communication");
FLAG_RANGE(min_bytes, 4, int64_t{1} << 40);
FLAG_RANGE(max_bytes, 4, int64_t{1} << 40);
FLAG_RANGE(factor, 2, 1 << 20);
FLAG_RANGE(milliseconds, 1, 3'600'000);
DEFINE_string(part, "", "file for the measurements of the gloo processes that this program starts");

namespace dpipe::bench {
namespace {

using Json = nlohmann::ordered_json;

void Say(const std::string& line) { std::printf("%s\n", line.c_str()), std::fflush(stdout); }

constexpr absl::Duration kDeadline = absl::Seconds(120);

CommunicationOptions OptionsFromFlags() {
  CommunicationOptions options;
  for (int64_t size = FLAGS_min_bytes; size <= FLAGS_max_bytes; size *= FLAGS_factor) {
    options.sizes_bytes.push_back(size);
  }
  options.probe.min_time_ns = FLAGS_milliseconds * kNanosPerMilli;
  return options;
}

absl::StatusOr<CommunicationTimes> MeasureInProcess(int num_ranks) {
  DPIPE_ASSIGN_OR_RETURN(const auto devices, CoresForRanks(num_ranks));
  DPIPE_ASSIGN_OR_RETURN(const auto communicators, ConnectRanks(devices, kDeadline));
  return MeasureThreads("in_process", devices, communicators, OptionsFromFlags());
}

// Returns NotFound if NCCL is not installed.
absl::StatusOr<CommunicationTimes> MeasureGpus(const std::vector<std::shared_ptr<Device>>& gpus) {
  DPIPE_ASSIGN_OR_RETURN(const auto communicators, ConnectRanks(gpus, kDeadline));
  return MeasureThreads("nccl", gpus, communicators, OptionsFromFlags());
}

// Measures NCCL, and says what it leaves out and why.
absl::Status MeasureNccl(std::vector<int> rank_numbers, std::vector<CommunicationTimes>* all) {
  const auto gpus = GpusForNccl(cuda::SystemDriver);
  if (absl::IsUnimplemented(gpus.status()) || absl::IsFailedPrecondition(gpus.status())) {
    Say(absl::StrCat("skipping nccl: ", gpus.status().message()));
    return absl::OkStatus();
  }
  DPIPE_RETURN_IF_ERROR(gpus.status());
  const int num_gpus = static_cast<int>(gpus->size());
  if (std::count(rank_numbers.begin(), rank_numbers.end(), num_gpus) == 0) {
    rank_numbers.push_back(num_gpus);
  }
  for (int num_ranks : rank_numbers) {
    if (num_ranks > num_gpus) {
      Say(absl::StrCat("skipping nccl with ", num_ranks, " ranks: there are only ", num_gpus,
                       " GPUs"));
      continue;
    }
    Say(absl::StrCat("measuring nccl with ", num_ranks, " ranks"));
    auto measured = MeasureGpus({gpus->begin(), gpus->begin() + num_ranks});
    if (absl::IsNotFound(measured.status())) {
      Say(absl::StrCat("skipping nccl: ", measured.status().message()));
      return absl::OkStatus();
    }
    DPIPE_ASSIGN_OR_RETURN(all->emplace_back(), std::move(measured));
  }
  return absl::OkStatus();
}

// Measures the job that this process belongs to.
absl::StatusOr<CommunicationTimes> MeasureJob(const JobAddress& address,
                                              const std::string& backend) {
  ProcessGroupOptions options;
  options.listener_fd = InheritedListener().value_or(-1);
  DPIPE_ASSIGN_OR_RETURN(const auto processes, ProcessGroup::Join(address, options));
  const ExitWithJob end(&processes->store());
  return MeasureProcesses(backend, kDeadline, OptionsFromFlags(), processes.get());
}

// Measures in a process that MeasureGloo has started. Process 0 writes the result to --part.
absl::Status RunGlooProcess() {
  DPIPE_ASSIGN_OR_RETURN(const auto address, JobAddressFromEnvironment(ProcessEnvironment));
  DPIPE_ASSIGN_OR_RETURN(const CommunicationTimes measured, MeasureJob(*address, "cpu"));
  if (address->process != 0) return absl::OkStatus();
  return WriteFileAtomically(FLAGS_part, CommunicationToJson(measured).dump());
}

absl::StatusOr<CommunicationTimes> MeasureGloo(int num_ranks,
                                               const std::vector<std::string>& arguments) {
  const ScratchFolder folder;
  LaunchOptions options;
  options.num_processes = num_ranks;
  options.arguments = arguments;
  options.arguments.push_back("--part=" + folder.File("part.json"));
  DPIPE_ASSIGN_OR_RETURN(const int exit_code, LaunchLocalProcesses(options));
  if (exit_code != 0) {
    return absl::InternalError(
        absl::StrCat(num_ranks, " processes have ended with exit code ", exit_code));
  }
  DPIPE_ASSIGN_OR_RETURN(const std::string text, ReadFile(folder.File("part.json")));
  DPIPE_ASSIGN_OR_RETURN(const Json json, ParseJson<Json>(text, "a process's part"));
  return CommunicationFromJson(json);
}

absl::StatusOr<std::vector<int>> RankNumbers() {
  std::vector<int> numbers;
  for (const auto& text : absl::StrSplit(FLAGS_ranks, ',')) {
    int number = 0;
    if (!absl::SimpleAtoi(text, &number) || number < 2) {
      return CommandLineError(
          absl::StrCat("--ranks=", FLAGS_ranks, " must be numbers, at least 2"));
    }
    numbers.push_back(number);
  }
  return numbers;
}

absl::Status Write(const std::vector<CommunicationTimes>& all, const std::string& command_line) {
  CaseResult about;
  DescribeRun(&about);
  Json json = {{"benchmark", "communication"},
               {"command_line", command_line},
               {"created", about.created()},
               {"machine", report::DescribeMachine(about.machine())},
               {"revision", about.versions().at("revision")}};
  for (const CommunicationTimes& measured : all) {
    json["measured"].push_back(CommunicationToJson(measured));
  }
  const std::string table =
      absl::StrCat("Median time, algorithm / bus bandwidth in GB/s (1e9 bytes); ",
                   report::DescribeMachine(about.machine()), "\n\n", CommunicationTable(all));
  Say("\n" + table);
  const std::string folder =
      FLAGS_out.empty() ? OutputPath("out/communication") : UserPath(FLAGS_out);
  DPIPE_RETURN_IF_ERROR(MakeFolder(folder));
  DPIPE_RETURN_IF_ERROR(WriteFileAtomically(folder + "/results.json", json.dump(1) + "\n"));
  return WriteFileAtomically(folder + "/table.md", table);
}

// Returns the backend for the processes of a job.
absl::StatusOr<std::string> JobBackend(const std::vector<std::string>& transports) {
  const auto has = [&](const char* name) {
    return std::count(transports.begin(), transports.end(), name) > 0;
  };
  if (!has("nccl") && !has("gloo")) {
    return CommandLineError(
        absl::StrCat("--transports=", FLAGS_transports, ": processes of a job need gloo or nccl"));
  }
  return has("nccl") ? has("gloo") ? "auto" : "cuda" : "cpu";
}

absl::Status MeasureAsJob(const JobAddress& address, const std::vector<std::string>& transports,
                          const std::string& command_line) {
  DPIPE_ASSIGN_OR_RETURN(const std::string backend, JobBackend(transports));
  DPIPE_ASSIGN_OR_RETURN(const CommunicationTimes measured, MeasureJob(address, backend));
  if (address.process != 0) return absl::OkStatus();
  return Write({measured}, absl::StrCat(address.num_processes, " processes by ", address.source,
                                        ": ", command_line));
}

absl::Status Main(const std::vector<std::string>& arguments, const std::string& command_line) {
  if (FLAGS_max_bytes < FLAGS_min_bytes) {
    return CommandLineError(absl::StrCat("--max_bytes=", FLAGS_max_bytes,
                                         " must be at least --min_bytes=", FLAGS_min_bytes));
  }
  DPIPE_ASSIGN_OR_RETURN(const std::vector<int> rank_numbers, RankNumbers());
  std::vector<std::string> transports = absl::StrSplit(FLAGS_transports, ',');
  for (const std::string& transport : transports) {
    DPIPE_RETURN_IF_ERROR(CheckChoice("transports", transport, {"gloo", "in_process", "nccl"}));
  }
  DPIPE_ASSIGN_OR_RETURN(const auto job, JobAddressFromEnvironment(ProcessEnvironment));
  if (job.has_value() && job->num_processes > 1) {
    return MeasureAsJob(*job, transports, command_line);
  }
  // Gloo comes first: processes are started while this one has no threads.
  std::stable_partition(transports.begin(), transports.end(),
                        [](const std::string& name) { return name == "gloo"; });
  std::vector<CommunicationTimes> all;
  for (const std::string& transport : transports) {
    if (transport == "nccl") {
      DPIPE_RETURN_IF_ERROR(MeasureNccl(rank_numbers, &all));
      continue;
    }
    for (int num_ranks : rank_numbers) {
      Say(absl::StrCat("measuring ", transport, " with ", num_ranks, " ranks"));
      if (transport == "gloo") {
        DPIPE_ASSIGN_OR_RETURN(all.emplace_back(), MeasureGloo(num_ranks, arguments));
      } else {
        DPIPE_ASSIGN_OR_RETURN(all.emplace_back(), MeasureInProcess(num_ranks));
      }
    }
  }
  return Write(all, command_line);
}

}  // namespace
}  // namespace dpipe::bench

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  std::string command_line = "bazel run -c opt //bench:communication --";
  for (const std::string& argument : arguments) {
    absl::StrAppend(&command_line, " ", dpipe::ShellCommand({argument}));
  }
  const dpipe::Command command = {
      "communication",
      "Measures messages and collectives of every transport, by size.\n"
      "  bazel run -c opt //bench:communication -- --transports=in_process --ranks=2\n"};
  return dpipe::RunCommand(argc, argv, command, [&] {
    return dpipe::StartedByLauncher() ? dpipe::bench::RunGlooProcess()
                                      : dpipe::bench::Main(arguments, command_line);
  });
}
