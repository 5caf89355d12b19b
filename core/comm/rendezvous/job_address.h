// Where a job's processes meet, and which of them this one is, from what started them.
#ifndef DPIPE_CORE_COMM_RENDEZVOUS_JOB_ADDRESS_H_
#define DPIPE_CORE_COMM_RENDEZVOUS_JOB_ADDRESS_H_

#include <functional>
#include <optional>
#include <string>

#include "core/base/status.h"

namespace dpipe {

struct JobAddress {
  std::string host;  // of process 0
  int port = 0;
  int process = 0;  // number of this one
  int num_processes = 1;
  int local_process = 0;  // its number among those on this host
  int num_local = 1;
  // Tells this run of the job from others that may be alive still; may be empty.
  std::string job;
  std::string source;  // "torchrun's environment", for people
};

// A variable's value, or null: getenv.
using Environment = std::function<const char*(const char* name)>;
// This process's own.
const char* ProcessEnvironment(const char* name);

inline constexpr int kDefaultJobPort = 29400;

// From the first of these that is there: torchrun (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, and
// LOCAL_RANK, LOCAL_WORLD_SIZE, TORCHELASTIC_RUN_ID where set); Slurm (SLURM_PROCID, SLURM_NTASKS,
// SLURM_JOB_NODELIST or MASTER_ADDR, and SLURM_LOCALID, SLURM_NODEID, SLURM_STEP_TASKS_PER_NODE or
// SLURM_TASKS_PER_NODE where set; only in a job step of several tasks); Open MPI
// (OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE, and MASTER_ADDR where there are several hosts).
// If all processes are on one host by these, they meet at its loopback address, unless Slurm or
// Open MPI has another MASTER_ADDR.
// None where this process was started alone. InvalidArgument names the variable that is missing or
// wrong, and its value.
absl::StatusOr<std::optional<JobAddress>> JobAddressFromEnvironment(const Environment& environment);

// What a user gives who starts every process of a job by hand.
struct JobByHand {
  std::string master;  // where process 0 is, "host:port"; IPv6 addresses in brackets
  int process = 0;
  int num_processes = 1;
  int per_host = 1;  // processes on every host, numbered consecutively
};

// InvalidArgument names what is wrong, and its value.
absl::StatusOr<JobAddress> JobAddressByHand(const JobByHand& job);

// The first host of a list as Slurm writes it: "node[3-5,9],login" has node3.
absl::StatusOr<std::string> FirstSlurmHost(const std::string& node_list);

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_RENDEZVOUS_JOB_ADDRESS_H_
