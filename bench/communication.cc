// How fast ranks talk: messages and collectives by size, for every transport that this machine has.
//   bazel run -c opt //bench:communication -- --out=out/communication
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "bench/code_identity.h"
#include "bench/communication_probe.h"
#include "core/backend/choose_devices.h"
#include "core/backend/connect_ranks.h"
#include "core/base/bytes.h"
#include "core/base/file.h"
#include "core/base/run_paths.h"
#include "core/base/scratch_folder.h"
#include "core/comm/gloo/gloo.h"
#include "core/comm/in_process.h"
#include "core/comm/rendezvous/end_with_job.h"
#include "core/comm/rendezvous/job_address.h"
#include "core/comm/rendezvous/local_launcher.h"
#include "core/comm/rendezvous/process_group.h"
#include "core/report/table.h"
#include "core/tensor/device_worker.h"
#include "gflags/gflags.h"
#include "nlohmann/json.hpp"

DEFINE_string(transports, "gloo,in_process,nccl",
              "gloo: ranks are processes of this machine; in_process: threads, a message a "
              "reference; nccl: GPUs, if there are two or more");
DEFINE_string(ranks, "2,4", "numbers of ranks; nccl takes as many as there are GPUs");
DEFINE_int64(min_bytes, 1024, "of the smallest tensor");
DEFINE_int64(max_bytes, 256 << 20, "of the largest tensor");
DEFINE_int32(factor, 4, "from one size to the next");
DEFINE_int32(milliseconds, 100, "of repeats, for each size and kind of traffic");
DEFINE_string(out, "", "folder for results.json and tables.md; empty: out/communication");
DEFINE_string(part, "", "where the processes of gloo leave what they have measured");

namespace dpipe::bench {
namespace {

using Json = nlohmann::ordered_json;

void Say(const std::string& line) { std::printf("%s\n", line.c_str()), std::fflush(stdout); }

std::vector<int64_t> Sizes() {
  std::vector<int64_t> sizes;
  for (int64_t size = FLAGS_min_bytes; size <= FLAGS_max_bytes; size *= FLAGS_factor) {
    sizes.push_back(size);
  }
  return sizes;
}

// What one transport does with so many ranks.
struct Measured {
  std::string transport;
  int num_ranks = 0;
  std::vector<TrafficTime> times;  // by traffic, then size
};

// One rank's part in all of it.
absl::StatusOr<std::vector<TrafficTime>> MeasureAll(Communicator* communicator,
                                                    const std::shared_ptr<Device>& device) {
  ProbeOptions options;
  options.min_time_ns = FLAGS_milliseconds * kNanosPerMilli;
  std::vector<TrafficTime> times;
  for (Traffic traffic : AllTraffic()) {
    for (int64_t size : Sizes()) {
      DPIPE_ASSIGN_OR_RETURN(times.emplace_back(),
                             MeasureTraffic(communicator, device, traffic, size, options));
    }
  }
  return times;
}

absl::StatusOr<Measured> MeasureThreads(
    const std::string& transport, const std::vector<std::shared_ptr<Device>>& devices,
    const std::vector<std::unique_ptr<Communicator>>& communicators) {
  const auto workers = StartWorkers(devices);
  std::vector<DeviceWorker*> pointers;
  for (const auto& worker : workers) pointers.push_back(worker.get());
  Measured measured{transport, static_cast<int>(devices.size()), {}};
  DPIPE_RETURN_IF_ERROR(FirstError(RunOnAll(pointers, [&](int rank) -> absl::Status {
    auto times = MeasureAll(communicators[rank].get(), devices[rank]);
    if (!times.ok()) communicators[rank]->Abort(times.status());
    if (times.ok() && rank == 0) measured.times = *std::move(times);
    return times.status();
  })));
  return measured;
}

absl::StatusOr<Measured> MeasureInProcess(int num_ranks) {
  const std::vector<std::shared_ptr<Device>> devices(num_ranks, Device::Cpu());
  return MeasureThreads("in_process", devices, CreateInProcessCommunicators(num_ranks));
}

// Unimplemented and FailedPrecondition where there are no GPUs for it.
absl::StatusOr<Measured> MeasureNccl() {
  DeviceRequest request;
  request.backend = "cuda";
  DPIPE_ASSIGN_OR_RETURN(const ChosenDevices chosen, ChooseDevices(request));
  if (chosen.devices.size() < 2) {
    return absl::FailedPreconditionError(
        absl::StrCat("NCCL needs two GPUs, there is one: ", chosen.devices[0]->name()));
  }
  DPIPE_ASSIGN_OR_RETURN(const auto communicators,
                         ConnectRanks(chosen.devices, absl::Seconds(120)));
  return MeasureThreads("nccl", chosen.devices, communicators);
}

Json ToJson(const Measured& measured) {
  Json json = {{"transport", measured.transport}, {"ranks", measured.num_ranks}};
  for (const TrafficTime& time : measured.times) {
    json["times"].push_back({{"traffic", TrafficName(time.traffic)},
                             {"bytes", time.size_bytes},
                             {"repeats", time.repeats},
                             {"median_ns", time.median_ns},
                             {"fastest_ns", time.fastest_ns},
                             {"slowest_ns", time.slowest_ns},
                             {"algorithm_bytes_per_s", AlgorithmBandwidth(time)},
                             {"bus_bytes_per_s", BusBandwidth(time)}});
  }
  return json;
}

// Of what ToJson has written just now.
Measured FromJson(const Json& json) {
  Measured measured{json["transport"], json["ranks"], {}};
  for (const Json& entry : json["times"]) {
    TrafficTime time;
    for (Traffic traffic : AllTraffic()) {
      if (entry["traffic"] == TrafficName(traffic)) time.traffic = traffic;
    }
    time.num_ranks = measured.num_ranks;
    time.size_bytes = entry["bytes"];
    time.repeats = entry["repeats"];
    time.median_ns = entry["median_ns"];
    time.fastest_ns = entry["fastest_ns"];
    time.slowest_ns = entry["slowest_ns"];
    measured.times.push_back(time);
  }
  return measured;
}

// A process that the launcher has started.
absl::Status MeasureAsProcess() {
  DPIPE_ASSIGN_OR_RETURN(const auto address, JobAddressFromEnvironment(ProcessEnvironment));
  ProcessGroupOptions options;
  options.listener_fd = InheritedListener().value_or(-1);
  DPIPE_ASSIGN_OR_RETURN(const auto processes, ProcessGroup::Join(*address, options));
  const EndWithJob end(&processes->store());
  GlooOptions gloo;
  gloo.name = "communication";
  gloo.rank = Rank(processes->process());
  gloo.size = processes->num_processes();
  gloo.device = Device::Cpu();
  DPIPE_ASSIGN_OR_RETURN(const auto communicator, ConnectGloo(&processes->store(), gloo));
  Measured measured{"gloo", gloo.size, {}};
  auto times = MeasureAll(communicator.get(), gloo.device);
  if (!times.ok()) communicator->Abort(times.status());
  DPIPE_ASSIGN_OR_RETURN(measured.times, std::move(times));
  if (!processes->is_leader()) return absl::OkStatus();
  return WriteFileAtomically(FLAGS_part, ToJson(measured).dump());
}

absl::StatusOr<Measured> MeasureGloo(int num_ranks, const std::vector<std::string>& arguments) {
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
  return FromJson(Json::parse(text));
}

// A row a size, a column a kind of traffic.
std::string TableOf(const Measured& measured) {
  std::vector<std::string> headers = {"bytes"};
  for (Traffic traffic : AllTraffic()) headers.push_back(TrafficName(traffic));
  report::Table table(headers);
  for (int64_t size : Sizes()) {
    std::vector<std::string> row = {FormatBytes(size)};
    for (const TrafficTime& time : measured.times) {
      if (time.size_bytes != size) continue;
      row.push_back(absl::StrFormat("%s, %.3g / %.3g", FormatDuration(time.median_ns),
                                    AlgorithmBandwidth(time) / 1e9, BusBandwidth(time) / 1e9));
    }
    table.AddRow(std::move(row));
  }
  return absl::StrCat("## ", measured.transport, ", ", measured.num_ranks, " ranks\n\n",
                      table.ToMarkdown());
}

absl::StatusOr<std::vector<int>> RankNumbers() {
  std::vector<int> numbers;
  for (const auto& text : absl::StrSplit(FLAGS_ranks, ',')) {
    int number = 0;
    if (!absl::SimpleAtoi(text, &number) || number < 2) {
      return absl::InvalidArgumentError(
          absl::StrCat("--ranks=", FLAGS_ranks, " must be numbers of at least 2"));
    }
    numbers.push_back(number);
  }
  return numbers;
}

absl::Status Write(const std::vector<Measured>& all, const std::string& command_line) {
  report::BenchResults about;
  DescribeRun(&about);
  Json json = {{"benchmark", "communication"},
               {"command_line", command_line},
               {"created", about.created},
               {"machine", report::DescribeMachine(about.machine)},
               {"revision", about.versions["revision"]}};
  std::string tables =
      absl::StrCat("Median time, algorithm and bus bandwidth in GB/s (1e9 bytes); ",
                   report::DescribeMachine(about.machine), "\n");
  for (const Measured& measured : all) {
    json["measured"].push_back(ToJson(measured));
    absl::StrAppend(&tables, "\n", TableOf(measured));
  }
  Say("\n" + tables);
  const std::string folder =
      FLAGS_out.empty() ? OutputPath("out/communication") : UserPath(FLAGS_out);
  DPIPE_RETURN_IF_ERROR(MakeFolder(folder));
  DPIPE_RETURN_IF_ERROR(WriteFileAtomically(folder + "/results.json", json.dump(1) + "\n"));
  return WriteFileAtomically(folder + "/tables.md", tables);
}

absl::Status Main(const std::vector<std::string>& arguments, const std::string& command_line) {
  if (FLAGS_min_bytes < 4 || FLAGS_max_bytes < FLAGS_min_bytes || FLAGS_factor < 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "sizes from --min_bytes=", FLAGS_min_bytes, " to --max_bytes=", FLAGS_max_bytes,
        " by --factor=", FLAGS_factor, " must be at least 4 and grow"));
  }
  DPIPE_ASSIGN_OR_RETURN(const std::vector<int> rank_numbers, RankNumbers());
  std::vector<std::string> transports = absl::StrSplit(FLAGS_transports, ',');
  // Processes are started while this one has no threads.
  std::stable_partition(transports.begin(), transports.end(),
                        [](const std::string& name) { return name == "gloo"; });
  std::vector<Measured> all;
  for (const std::string& transport : transports) {
    if (transport == "nccl") {
      auto measured = MeasureNccl();
      if (measured.ok()) {
        all.push_back(*std::move(measured));
      } else if (absl::IsUnimplemented(measured.status()) ||
                 absl::IsFailedPrecondition(measured.status())) {
        Say(absl::StrCat("nccl is left out: ", measured.status().message()));
      } else {
        return measured.status();
      }
      continue;
    }
    for (int num_ranks : rank_numbers) {
      Say(absl::StrCat("measuring ", transport, " with ", num_ranks, " ranks"));
      if (transport == "gloo") {
        DPIPE_ASSIGN_OR_RETURN(all.emplace_back(), MeasureGloo(num_ranks, arguments));
      } else if (transport == "in_process") {
        DPIPE_ASSIGN_OR_RETURN(all.emplace_back(), MeasureInProcess(num_ranks));
      } else {
        return absl::InvalidArgumentError(absl::StrCat("unknown transport '", transport,
                                                       "'; there are gloo, in_process and nccl"));
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
  for (const std::string& argument : arguments) absl::StrAppend(&command_line, " ", argument);
  gflags::SetUsageMessage("Measures messages and collectives of every transport, by size.");
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  const absl::Status status = dpipe::StartedByLauncher()
                                  ? dpipe::bench::MeasureAsProcess()
                                  : dpipe::bench::Main(arguments, command_line);
  if (status.ok()) return 0;
  std::fprintf(stderr, "communication: %s\n", std::string(status.message()).c_str());
  return 1;
}
