// The processes of a job, as seen by one of them: the store where they meet, and the ranks of each
// process.
#ifndef DPIPE_CORE_COMM_RENDEZVOUS_PROCESS_GROUP_H_
#define DPIPE_CORE_COMM_RENDEZVOUS_PROCESS_GROUP_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/base/status.h"
#include "core/base/strong_id.h"
#include "core/comm/rendezvous/job_address.h"
#include "core/comm/rendezvous/job_secret.h"
#include "core/comm/rendezvous/store/store_client.h"
#include "core/comm/rendezvous/store/store_server.h"

namespace dpipe {

struct ProcessGroupOptions {
  int ranks_per_process = 1;  // the same for every process
  absl::Duration join_deadline = absl::Seconds(60);
  absl::Duration silence = absl::Seconds(20);  // see StoreServerOptions
  // If empty, FindJobSecret finds it (job_secret.h), by `secret_file` and the environment.
  JobSecret secret;
  std::string secret_file;
  // In process 0: a socket that already listens at the address's port. If -1, Join creates one.
  int listener_fd = -1;
  // Processes with the same host name share files. If empty, the system's host name.
  std::string host_name;
};

class ProcessGroup {
 public:
  // Returns when all processes have joined. Process 0 listens at the address (ListenAt). Afterwards
  // this process ignores the signal SIGPIPE: a broken connection is an error instead.
  static absl::StatusOr<std::unique_ptr<ProcessGroup>> Join(
      const JobAddress& address, const ProcessGroupOptions& options = {});
  // Leaves the job. Process 0 hosts the store, so it waits for the others to leave, at most as long
  // as a process may be silent.
  ~ProcessGroup() = default;

  const JobAddress& address() const { return address_; }
  int process() const { return store_->process(); }
  int num_processes() const { return store_->num_processes(); }
  bool is_leader() const { return process() == 0; }
  int num_ranks() const { return num_processes() * ranks_per_process_; }
  // Returns the ranks that this process drives, which are consecutive.
  std::vector<Rank> local_ranks() const;
  int ProcessOf(Rank rank) const { return rank.value() / ranks_per_process_; }
  StoreClient& store() { return *store_; }
  // Returns a new number at every call, for the names of keys. It is the same in every process that
  // has made the same number of calls.
  int NextNumber() { return next_number_++; }

  // Broadcasts process 0's `text` to every process; the others' `text` is ignored. All processes
  // make this call in the same order. Only the job's failure ends the wait for process 0; `what`
  // says in the error what the wait was for.
  absl::StatusOr<std::string> FromLeader(const std::string& what, const std::string& text);
  // Runs `work` in the first process of each host and, when that has finished, in the host's other
  // processes. For work whose first run creates files that the later runs find. All processes make
  // this call in the same order.
  absl::Status RunFirstOnHost(const std::string& what, const std::function<absl::Status()>& work);

 private:
  ProcessGroup(const JobAddress& address, int ranks_per_process)
      : address_(address), ranks_per_process_(ranks_per_process) {}

  const JobAddress address_;
  const int ranks_per_process_;
  int next_number_ = 0;
  std::unique_ptr<StoreServer> server_;  // in process 0; destroyed after the client
  std::unique_ptr<StoreClient> store_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_RENDEZVOUS_PROCESS_GROUP_H_
