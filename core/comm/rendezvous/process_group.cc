#include "core/comm/rendezvous/process_group.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/host/host_name.h"
#include "core/comm/rendezvous/socket.h"

namespace dpipe {
namespace {

// Returns "rank 3 (pid 4711 on node2)" or "ranks 4-7 (...)".
std::string ProcessName(int process, int ranks, const std::string& host) {
  const int first = process * ranks;
  return absl::StrCat(ranks == 1 ? absl::StrCat("rank ", first)
                                 : absl::StrCat("ranks ", first, "-", first + ranks - 1),
                      " (pid ", getpid(), " on ", host, ")");
}

// Opens the store's sockets. Retries, because an earlier run's store may take a moment to exit.
absl::StatusOr<std::vector<Socket>> Listeners(const JobAddress& address,
                                              const ProcessGroupOptions& options) {
  const absl::Duration deadline = options.join_deadline;
  if (options.listener_fd >= 0) {
    fcntl(options.listener_fd, F_SETFL, O_NONBLOCK);
    fcntl(options.listener_fd, F_SETFD, FD_CLOEXEC);
    std::vector<Socket> listeners;
    listeners.emplace_back(options.listener_fd);
    return listeners;
  }
  const Deadline limit(deadline);
  const bool on_several_hosts = address.num_local < address.num_processes;
  while (true) {
    auto listeners = ListenAt(address.host, address.port, on_several_hosts);
    if (listeners.ok()) return listeners;
    if (limit.passed()) {
      return absl::Status(listeners.status().code(),
                          absl::StrCat("process 0, which hosts the store of the job (by ",
                                       address.source, "), ", listeners.status().message(),
                                       ", even after ", absl::FormatDuration(deadline)));
    }
    absl::SleepFor(absl::Milliseconds(100));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<ProcessGroup>> ProcessGroup::Join(
    const JobAddress& address, const ProcessGroupOptions& options) {
  signal(SIGPIPE, SIG_IGN);
  auto group = std::unique_ptr<ProcessGroup>(new ProcessGroup(address, options.ranks_per_process));
  StoreClientOptions client;
  client.host = address.host;
  client.port = address.port;
  client.secret = options.secret;
  if (client.secret.empty()) {
    DPIPE_ASSIGN_OR_RETURN(client.secret,
                           FindJobSecret(address, options.secret_file, ProcessEnvironment));
  }
  if (address.process == 0) {
    DPIPE_ASSIGN_OR_RETURN(std::vector<Socket> listeners, Listeners(address, options));
    client.port = listeners[0].port();
    StoreServerOptions server;
    server.secret = client.secret;
    server.num_processes = address.num_processes;
    server.job = address.job;
    server.join_deadline = options.join_deadline;
    server.silence = options.silence;
    group->server_ = std::make_unique<StoreServer>(std::move(listeners), server);
  }
  client.job = address.job;
  client.process = address.process;
  client.num_processes = address.num_processes;
  client.on_host = options.host_name.empty() ? HostName() : options.host_name;
  client.name = ProcessName(address.process, options.ranks_per_process, client.on_host);
  client.join_deadline = options.join_deadline;
  client.silence = options.silence;
  DPIPE_ASSIGN_OR_RETURN(group->store_, StoreClient::Join(client));
  return group;
}

std::vector<Rank> ProcessGroup::local_ranks() const {
  std::vector<Rank> ranks;
  for (int i = 0; i < ranks_per_process_; ++i) {
    ranks.push_back(Rank(process() * ranks_per_process_ + i));
  }
  return ranks;
}

absl::StatusOr<std::string> ProcessGroup::FromLeader(const std::string& what,
                                                     const std::string& text) {
  const std::string key = absl::StrCat("from the leader/", NextNumber());
  if (!is_leader()) return store_->Get(key, absl::StrCat(what, " from ", store_->NameOf(0)));
  DPIPE_RETURN_IF_ERROR(store_->Set(key, text));
  return text;
}

absl::Status ProcessGroup::RunFirstOnHost(const std::string& what,
                                          const std::function<absl::Status()>& work) {
  // A host's processes need not have consecutive numbers: schedulers may assign them round-robin.
  int first = 0;
  while (store_->HostOf(first) != store_->HostOf(process())) ++first;
  const std::string key = absl::StrCat("first on host/", NextNumber(), "/", first);
  if (process() != first) {
    DPIPE_RETURN_IF_ERROR(
        store_->Get(key, absl::StrCat(what, " by ", store_->NameOf(first))).status());
    return work();
  }
  DPIPE_RETURN_IF_ERROR(work());
  return store_->Set(key, "");
}

}  // namespace dpipe
