// The processes of a job, as one of them sees them: the store where they meet, and which ranks are
// whose.
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
#include "core/comm/rendezvous/store_client.h"
#include "core/comm/rendezvous/store_server.h"

namespace dpipe {

struct ProcessGroupOptions {
  int ranks_per_process = 1;  // the same of every process
  absl::Duration join_deadline = absl::Seconds(60);
  absl::Duration silence = absl::Seconds(20);  // see StoreServerOptions
  // Empty: as FindJobSecret finds it (job_secret.h), by `secret_file` and the environment.
  JobSecret secret;
  std::string secret_file;
  // In process 0: a socket that listens already, at the address's port. -1: Join makes one.
  int listener_fd = -1;
  // Processes with the same host name share files. Empty: the system's.
  std::string host_name;
};

class ProcessGroup {
 public:
  // Returns when all processes are there. Process 0 listens at the address (ListenAt). From then on
  // a broken connection is an error in this process, and no longer the signal SIGPIPE.
  static absl::StatusOr<std::unique_ptr<ProcessGroup>> Join(
      const JobAddress& address, const ProcessGroupOptions& options = {});
  // Leaves. Process 0 waits for the others to leave, because it hosts the store; at most as long as
  // a process may be silent.
  ~ProcessGroup() = default;

  const JobAddress& address() const { return address_; }
  int process() const { return store_->process(); }
  int num_processes() const { return store_->num_processes(); }
  bool is_leader() const { return process() == 0; }
  int num_ranks() const { return num_processes() * ranks_per_process_; }
  // Those that this process drives: neighbours.
  std::vector<Rank> local_ranks() const;
  int ProcessOf(Rank rank) const { return rank.value() / ranks_per_process_; }
  StoreClient& store() { return *store_; }
  // A new number at every call, the same in every process that has called as often: for the names
  // of keys.
  int NextNumber() { return next_number_++; }

  // What all agree on: gives every process process 0's `text`; the others' is not looked at. All
  // call this alike. Only the job's failure ends the wait for process 0, and `what` is what it was
  // for.
  absl::StatusOr<std::string> FromLeader(const std::string& what, const std::string& text);
  // Runs `work` in the first process of each host, and when that is done in the host's others:
  // where the first makes files that the others then find. All call this alike.
  absl::Status FirstOnHostFirst(const std::string& what, const std::function<absl::Status()>& work);

 private:
  ProcessGroup(const JobAddress& address, int ranks_per_process)
      : address_(address), ranks_per_process_(ranks_per_process) {}

  const JobAddress address_;
  const int ranks_per_process_;
  int next_number_ = 0;
  std::unique_ptr<StoreServer> server_;  // of process 0; goes after the client
  std::unique_ptr<StoreClient> store_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_RENDEZVOUS_PROCESS_GROUP_H_
