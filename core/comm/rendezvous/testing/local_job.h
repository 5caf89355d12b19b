// A job on this machine for tests, whose processes are threads or forks.
#ifndef DPIPE_CORE_COMM_RENDEZVOUS_TESTING_LOCAL_JOB_H_
#define DPIPE_CORE_COMM_RENDEZVOUS_TESTING_LOCAL_JOB_H_

#include <functional>
#include <string>
#include <vector>

#include "core/comm/rendezvous/job_address.h"
#include "core/comm/rendezvous/process_group.h"

namespace dpipe {

// Arguments of one process's ProcessGroup::Join(address, options). Used once.
struct JobMember {
  JobAddress address;
  ProcessGroupOptions options;
};

// Returns one process per entry of `hosts`; entries may be equal. The first one's options have the
// socket that the store listens on.
std::vector<JobMember> LocalJob(const std::vector<std::string>& hosts);
// Returns `num_processes` processes on one host.
std::vector<JobMember> LocalJob(int num_processes, int ranks_per_process = 1);

// Runs each process on one thread, and returns when all have finished.
void RunAsThreads(const std::vector<JobMember>& job,
                  const std::function<void(const JobMember&)>& process);

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_RENDEZVOUS_TESTING_LOCAL_JOB_H_
