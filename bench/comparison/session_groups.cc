#include "bench/comparison/session_groups.h"

#include <algorithm>

#include "core/schedule/memory/memory.h"

namespace dpipe::bench {
namespace {

bool Fits(const std::vector<int64_t>& bytes, const std::vector<int64_t>& limits) {
  for (size_t r = 0; r < bytes.size(); ++r) {
    if (limits[r] > 0 && bytes[r] > limits[r]) return false;
  }
  return true;
}

std::vector<int64_t> Sum(std::vector<int64_t> a, const std::vector<int64_t>& b) {
  for (size_t r = 0; r < b.size(); ++r) a[r] += b[r];
  return a;
}

}  // namespace

SessionGroups GroupSessions(const SessionNeeds& needs) {
  SessionGroups result;
  std::vector<int> all;
  std::vector<int64_t> of_all = needs.profiling;
  for (size_t i = 0; i < needs.sessions.size(); ++i) {
    if (needs.sessions[i].empty()) continue;
    all.push_back(static_cast<int>(i));
    of_all = Sum(of_all, needs.sessions[i]);
  }
  if (all.empty()) return result;
  if (Fits(of_all, needs.limits)) {
    result.groups.push_back(all);
    return result;
  }
  result.all_at_once = false;
  std::vector<int64_t> of_group;
  for (const int i : all) {
    const std::vector<int64_t> with =
        result.groups.empty() ? needs.sessions[i] : Sum(of_group, needs.sessions[i]);
    if (!result.groups.empty() && Fits(with, needs.limits)) {
      result.groups.back().push_back(i);
      of_group = with;
    } else {
      result.groups.push_back({i});
      of_group = needs.sessions[i];
    }
  }
  return result;
}

SessionNeeds NeedsOf(const std::vector<const Plan*>& plans, const std::vector<int>& local_batches,
                     const CostModel& cost) {
  SessionNeeds needs;
  for (const Plan* plan : plans) {
    std::vector<int64_t>& peaks = needs.sessions.emplace_back();
    const PlanMemory memory(*plan, cost);
    for (int r = 0; r < plan->devices_size(); ++r) peaks.push_back(memory.OfRank(r).peak_bytes);
  }
  const int batch =
      local_batches.empty() ? 0 : *std::max_element(local_batches.begin(), local_batches.end());
  int64_t profiling = 0;
  for (int backbone : cost.backbones()) {
    profiling = std::max(profiling, cost.StageBytes(backbone, cost.AllLayers(backbone), batch, 1));
  }
  needs.profiling.assign(cost.num_devices(), profiling);
  for (int r = 0; r < cost.num_devices(); ++r) needs.limits.push_back(cost.MemoryLimitOf(r));
  return needs;
}

}  // namespace dpipe::bench
