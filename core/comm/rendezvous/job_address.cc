#include "core/comm/rendezvous/job_address.h"

#include <cstdlib>
#include <functional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace dpipe {
namespace {

// Reads variables, and remembers the first error.
class Reader {
 public:
  Reader(const Environment& environment, std::string source)
      : environment_(environment), source_(std::move(source)) {}

  std::string Text(const char* name, const std::string& otherwise = "") const {
    const char* value = environment_(name);
    return value == nullptr || *value == '\0' ? otherwise : value;
  }
  std::string Required(const char* name, const std::string& why = "") {
    const std::string value = Text(name);
    if (value.empty()) Wrong(absl::StrCat(name, " is not set", why));
    return value;
  }
  int Number(const char* name, int low, int high, std::optional<int> otherwise = std::nullopt) {
    if (Text(name).empty() && otherwise.has_value()) return *otherwise;
    const std::string text = Required(name);
    int value = low;
    if (!text.empty() && (!absl::SimpleAtoi(text, &value) || value < low || value > high)) {
      Wrong(absl::StrCat(name, " is '", text, "'; it must be from ", low, " to ", high));
    }
    return value;
  }
  void Wrong(const std::string& message) {
    if (status_.ok()) {
      status_ = absl::InvalidArgumentError(absl::StrCat("in ", source_, ", ", message));
    }
  }
  // Reads the process's number and the number of processes.
  void Place(const char* number, const char* count, int* process, int* num_processes) {
    *num_processes = Number(count, 1, 1 << 20);
    *process = Number(number, 0, *num_processes - 1);
  }
  absl::StatusOr<std::optional<JobAddress>> Finish(JobAddress address) const {
    if (!status_.ok()) return status_;
    address.source = source_;
    return std::optional<JobAddress>(std::move(address));
  }

 private:
  const Environment& environment_;
  const std::string source_;
  absl::Status status_;
};

constexpr int kMaxPort = 65535;
constexpr char kThisHost[] = "127.0.0.1";

absl::StatusOr<std::optional<JobAddress>> FromTorchrun(const Environment& environment) {
  Reader reader(environment, "torchrun's environment");
  JobAddress address;
  reader.Place("RANK", "WORLD_SIZE", &address.process, &address.num_processes);
  address.host = reader.Required("MASTER_ADDR");
  address.port = reader.Number("MASTER_PORT", 1, kMaxPort);
  // Then torchrun itself uses MASTER_PORT, with another protocol.
  if (reader.Text("TORCHELASTIC_USE_AGENT_STORE") == "True") ++address.port;
  address.num_local = reader.Number("LOCAL_WORLD_SIZE", 1, address.num_processes, 1);
  address.local_process = reader.Number("LOCAL_RANK", 0, address.num_local - 1, 0);
  // All processes are on this host, so no other host needs to reach them.
  if (address.num_local == address.num_processes) address.host = kThisHost;
  address.job = reader.Text("DPIPE_JOB", reader.Text("TORCHELASTIC_RUN_ID"));
  // A restart of the run must not mix with processes that are left from before.
  const std::string restart = reader.Text("TORCHELASTIC_RESTART_COUNT");
  if (!restart.empty()) absl::StrAppend(&address.job, " restart ", restart);
  return reader.Finish(std::move(address));
}

// Returns a port specific to the job, so that two jobs on one host do not meet.
int SlurmPort(const std::string& job) {
  int id = 0;
  return absl::SimpleAtoi(job, &id) ? 20000 + id % 10000 : kDefaultJobPort;
}

// Returns the number of tasks of a node in Slurm's list, "4(x2),3"; 0 if the list does not say.
int SlurmTasksOf(const std::string& tasks, int node) {
  for (absl::string_view entry : absl::StrSplit(tasks, ',')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(entry, absl::MaxSplits("(x", 1));
    absl::string_view times = parts.second;
    int count = 0, nodes = 1;
    if (!absl::SimpleAtoi(parts.first, &count)) return 0;
    if (absl::ConsumeSuffix(&times, ")") && !absl::SimpleAtoi(times, &nodes)) return 0;
    if (node < nodes) return count;
    node -= nodes;
  }
  return 0;
}

absl::StatusOr<std::optional<JobAddress>> FromSlurm(const Environment& environment) {
  Reader reader(environment, "Slurm's environment");
  JobAddress address;
  reader.Place("SLURM_PROCID", "SLURM_NTASKS", &address.process, &address.num_processes);
  address.local_process = reader.Number("SLURM_LOCALID", 0, address.num_processes - 1, 0);
  const char* const per_node = reader.Text("SLURM_STEP_TASKS_PER_NODE").empty()
                                   ? "SLURM_TASKS_PER_NODE"
                                   : "SLURM_STEP_TASKS_PER_NODE";
  const std::string tasks = reader.Text(per_node);
  const int node = reader.Number("SLURM_NODEID", 0, 1 << 20, 0);
  address.num_local = tasks.empty() ? address.local_process + 1 : SlurmTasksOf(tasks, node);
  if (address.num_local <= address.local_process) {
    reader.Wrong(absl::StrCat(per_node, " is '", tasks, "', which has no task ",
                              address.local_process, " (from 0) on node ", node));
  }
  const std::string job = reader.Required("SLURM_JOB_ID");
  address.job = absl::StrCat("slurm ", job, ".", reader.Text("SLURM_STEP_ID", "0"), " restart ",
                             reader.Text("SLURM_RESTART_COUNT", "0"));
  address.host = reader.Text("MASTER_ADDR");
  if (address.host.empty() && !tasks.empty() && address.num_local == address.num_processes) {
    address.host = kThisHost;
  } else if (address.host.empty()) {
    const auto host =
        FirstSlurmHost(reader.Text("SLURM_STEP_NODELIST", reader.Required("SLURM_JOB_NODELIST")));
    if (!host.ok()) reader.Wrong(std::string(host.status().message()));
    if (host.ok()) address.host = *host;
  }
  address.port = reader.Number("MASTER_PORT", 1, kMaxPort, SlurmPort(job));
  return reader.Finish(std::move(address));
}

absl::StatusOr<std::optional<JobAddress>> FromOpenMpi(const Environment& environment) {
  Reader reader(environment, "Open MPI's environment");
  JobAddress address;
  reader.Place("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", &address.process,
               &address.num_processes);
  address.num_local = reader.Number("OMPI_COMM_WORLD_LOCAL_SIZE", 1, address.num_processes, 1);
  address.local_process = reader.Number("OMPI_COMM_WORLD_LOCAL_RANK", 0, address.num_local - 1, 0);
  address.host = reader.Text("MASTER_ADDR");
  if (address.host.empty() && address.num_local < address.num_processes) {
    reader.Required("MASTER_ADDR", ", which processes on several hosts need (mpirun -x)");
  } else if (address.host.empty()) {
    address.host = kThisHost;
  }
  address.port = reader.Number("MASTER_PORT", 1, kMaxPort, kDefaultJobPort);
  address.job = reader.Text("PMIX_NAMESPACE", reader.Text("OMPI_MCA_ess_base_jobid"));
  return reader.Finish(std::move(address));
}

}  // namespace

const char* ProcessEnvironment(const char* name) { return std::getenv(name); }

absl::StatusOr<std::optional<JobAddress>> JobAddressFromEnvironment(
    const Environment& environment) {
  const auto is_set = [&](const char* name) {
    const char* value = environment(name);
    return value != nullptr && *value != '\0';
  };
  if (is_set("RANK") || is_set("WORLD_SIZE")) return FromTorchrun(environment);
  if (is_set("OMPI_COMM_WORLD_RANK")) return FromOpenMpi(environment);
  // In an allocation's own shell there is a job, but no step with tasks.
  int tasks = 0;
  if (is_set("SLURM_PROCID") && is_set("SLURM_STEP_ID") && is_set("SLURM_NTASKS") &&
      absl::SimpleAtoi(environment("SLURM_NTASKS"), &tasks) && tasks > 1) {
    return FromSlurm(environment);
  }
  return std::optional<JobAddress>();
}

absl::StatusOr<JobAddress> JobAddressByHand(const JobByHand& job) {
  JobAddress address;
  address.source = "flags";
  const size_t colon = job.master.rfind(':');
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(job.master.substr(colon + 1), &address.port) || address.port < 1 ||
      address.port > kMaxPort) {
    return absl::InvalidArgumentError(absl::StrCat("the address of process 0 is '", job.master,
                                                   "'; it must be host:port, such as node0:29400"));
  }
  address.host = job.master.substr(0, colon);
  if (address.host.front() == '[' && address.host.back() == ']') {
    address.host = address.host.substr(1, address.host.size() - 2);
  }
  if (job.process < 0 || job.process >= job.num_processes) {
    return absl::InvalidArgumentError(absl::StrCat("process ", job.process,
                                                   " does not exist: there are ", job.num_processes,
                                                   " processes, numbered from 0"));
  }
  if (job.per_host < 1 || job.num_processes % job.per_host != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        job.num_processes, " processes are not a multiple of ", job.per_host, " on every host"));
  }
  address.process = job.process;
  address.num_processes = job.num_processes;
  address.local_process = job.process % job.per_host;
  address.num_local = job.per_host;
  return address;
}

absl::StatusOr<std::string> FirstSlurmHost(const std::string& node_list) {
  const size_t end = node_list.find_first_of(",[");
  std::string host = node_list.substr(0, end);
  std::string rest = end == std::string::npos ? "" : node_list.substr(end);
  // A name may have several brackets: "rack[1-2]node[03-08]".
  while (!rest.empty() && rest[0] == '[') {
    const size_t close = rest.find(']');
    const std::string range = rest.substr(1, close == std::string::npos ? close : close - 1);
    const std::string first = range.substr(0, range.find_first_of("-,"));
    if (close == std::string::npos || first.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the node list '", node_list, "' has an unclosed bracket"));
    }
    rest = rest.substr(close + 1);
    const size_t next = rest.find_first_of(",[");
    absl::StrAppend(&host, first, rest.substr(0, next));
    rest = next == std::string::npos ? "" : rest.substr(next);
  }
  if (host.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the node list '", node_list, "' contains no host"));
  }
  return host;
}

}  // namespace dpipe
