#include "core/comm/rendezvous/testing/local_job.h"

#include <algorithm>
#include <thread>

#include "core/base/check.h"
#include "core/comm/rendezvous/socket.h"

namespace dpipe {

std::vector<JobMember> LocalJob(const std::vector<std::string>& hosts) {
  auto listener = ListenOnLoopback();
  DPIPE_CHECK(listener.ok()) << listener.status();
  const JobSecret secret = JobSecret::Random();
  std::vector<JobMember> job(hosts.size());
  for (size_t i = 0; i < hosts.size(); ++i) {
    JobAddress& address = job[i].address;
    address.host = "127.0.0.1";
    address.port = listener->port();
    address.process = static_cast<int>(i);
    address.num_processes = static_cast<int>(hosts.size());
    address.num_local = static_cast<int>(std::count(hosts.begin(), hosts.end(), hosts[i]));
    address.local_process =
        static_cast<int>(std::count(hosts.begin(), hosts.begin() + i, hosts[i]));
    job[i].options.host_name = hosts[i];
    job[i].options.secret = secret;
  }
  job[0].options.listener_fd = listener->Release();
  return job;
}

std::vector<JobMember> LocalJob(int num_processes, int ranks_per_process) {
  std::vector<JobMember> job = LocalJob(std::vector<std::string>(num_processes, "node1"));
  for (JobMember& member : job) member.options.ranks_per_process = ranks_per_process;
  return job;
}

void RunAsThreads(const std::vector<JobMember>& job,
                  const std::function<void(const JobMember&)>& process) {
  std::vector<std::thread> threads;
  for (const JobMember& member : job) threads.emplace_back([&] { process(member); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace dpipe
