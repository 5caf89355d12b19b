#include "core/cost/shared_links.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"

namespace dpipe {

SharedLinks::SharedLinks(const ClusterSpec& cluster)
    : devices_per_node_(cluster.devices_per_node()) {
  const int num_devices = cluster.num_nodes() * devices_per_node_;
  const auto add = [&](Level level) {
    level.first_link = size_;
    size_ += num_devices / level.devices * (level.carries_everything ? 1 : 2);
    levels_.push_back(std::move(level));
  };
  add({"interface", 0, devices_per_node_ / std::max(1, cluster.interfaces_per_node()), false,
       cluster.inter_node().bandwidth_bytes_per_s()});
  num_interface_links_ = size_;
  for (const SharedLink& shared : cluster.shared_links()) {
    add({shared.name(), 0, shared.devices(), shared.carries() == SharedLink::EVERYTHING,
         shared.bandwidth_bytes_per_s()});
  }
}

const SharedLinks::Level& SharedLinks::LevelOf(int link) const {
  int level = static_cast<int>(levels_.size()) - 1;
  while (levels_[level].first_link > link) --level;
  return levels_[level];
}

std::string SharedLinks::NameOf(int link) const {
  const Level& level = LevelOf(link);
  const int index = link - level.first_link;
  const char* direction = level.carries_everything ? "" : index % 2 == 0 ? " out" : " in";
  const int group = level.carries_everything ? index : index / 2;
  if (link < num_interface_links_) return absl::StrCat(level.name, " ", group, direction);
  const int first = group * level.devices;
  return absl::StrCat(level.name, " of devices ", first, "-", first + level.devices - 1, direction);
}

double SharedLinks::bandwidth_bytes_per_s(int link) const {
  return LevelOf(link).bandwidth_bytes_per_s;
}

std::vector<int> SharedLinks::OnPath(int from, int to) const {
  std::vector<int> path;
  for (const Level& level : levels_) {
    const bool is_interface = level.first_link < num_interface_links_;
    if (is_interface && from / devices_per_node_ == to / devices_per_node_) continue;
    const int sender = from / level.devices, receiver = to / level.devices;
    if (level.carries_everything) {
      path.push_back(level.first_link + sender);
      if (sender != receiver) path.push_back(level.first_link + receiver);
    } else if (sender != receiver) {
      path.push_back(level.first_link + 2 * sender);
      path.push_back(level.first_link + 2 * receiver + 1);
    }
  }
  return path;
}

void SharedLinks::AppendInterfacesOf(const std::vector<int>& ranks, std::vector<int>* links) const {
  const size_t first = links->size();
  for (int rank : ranks) {
    const int out = 2 * (rank / levels_[0].devices);
    if (std::find(links->begin() + first, links->end(), out) != links->end()) continue;
    links->push_back(out);
    links->push_back(out + 1);
  }
}

std::vector<SharedLinks::RingUse> SharedLinks::OfRing(std::vector<int> ranks) const {
  if (levels_.size() < 2 || ranks.size() < 2) return {};
  std::sort(ranks.begin(), ranks.end());
  std::map<int, int> edges;
  for (size_t i = 0; i < ranks.size(); ++i) {
    for (int link : OnPath(ranks[i], ranks[(i + 1) % ranks.size()])) {
      if (link >= num_interface_links_) ++edges[link];
    }
  }
  std::vector<RingUse> uses;
  for (const auto& [link, count] : edges) uses.push_back({link, count});
  return uses;
}

}  // namespace dpipe
