// A job's meeting point and this process's place in the job, as set by the program that started it.
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
  int process = 0;  // number of this process
  int num_processes = 1;
  int local_process = 0;  // its number among the processes on this host
  int num_local = 1;
  // Distinguishes this run of the job from others that may still be running. May be empty.
  std::string job;
  std::string source;  // for messages: "torchrun's environment"
};

// Returns a variable's value or null, like getenv.
using Environment = std::function<const char*(const char* name)>;
// Reads this process's own environment.
const char* ProcessEnvironment(const char* name);

inline constexpr int kDefaultJobPort = 29400;

// Reads the first of these environments that is present:
// - torchrun: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT; optional LOCAL_RANK, LOCAL_WORLD_SIZE,
//   TORCHELASTIC_RUN_ID.
// - Slurm, in a job step of several tasks only: SLURM_PROCID, SLURM_NTASKS, SLURM_JOB_NODELIST or
//   MASTER_ADDR; optional SLURM_LOCALID, SLURM_NODEID, SLURM_STEP_TASKS_PER_NODE or
//   SLURM_TASKS_PER_NODE.
// - Open MPI: OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE; MASTER_ADDR if there are several hosts.
//
// If these show that all processes are on one host, they meet at its loopback address, unless Slurm
// or Open MPI has another MASTER_ADDR. Returns nullopt if this process was started alone, and
// InvalidArgument, with the variable's name and value, if a variable is missing or wrong.
absl::StatusOr<std::optional<JobAddress>> JobAddressFromEnvironment(const Environment& environment);

// Settings of a user who starts every process of a job by hand.
struct JobByHand {
  std::string master;  // address of process 0, "host:port"; IPv6 addresses in brackets
  int process = 0;
  int num_processes = 1;
  int per_host = 1;  // processes per host, numbered consecutively
};

// Returns InvalidArgument with the name and value of a wrong setting.
absl::StatusOr<JobAddress> JobAddressByHand(const JobByHand& job);

// Returns the first host of a list in Slurm's format: node3 for "node[3-5,9],login".
absl::StatusOr<std::string> FirstSlurmHost(const std::string& node_list);

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_RENDEZVOUS_JOB_ADDRESS_H_
