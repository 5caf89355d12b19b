#include "core/schedule/messages/recv_positions.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace dpipe {
namespace {

// The maximum number of positions tried for one move of a message.
constexpr int kMaxTries = 16;

class OrderGraph {
 public:
  explicit OrderGraph(const Lanes& lanes) : lanes_(lanes) {
    for (const std::vector<Nanos>& lane : lanes.start) {
      first_.push_back(num_nodes_);
      num_nodes_ += static_cast<int>(lane.size());
    }
    first_.push_back(num_nodes_);
    lane_.resize(num_nodes_);
    for (size_t lane = 0; lane < lanes.start.size(); ++lane) {
      std::fill(lane_.begin() + first_[lane], lane_.begin() + first_[lane + 1],
                static_cast<int>(lane));
    }
    sends_after_.resize(num_nodes_);
    recvs_before_.resize(num_nodes_);
    mark_.assign(num_nodes_, 0);
    GroupNodes();
    SortGroups();
    for (size_t m = 0; m < lanes.messages.size(); ++m) AddMessage(static_cast<int>(m));
  }

  // Returns the node of its lane before which message m is received.
  int PositionOf(int m) const { return recv_[m] - first_[lanes_.messages[m].to]; }

  // Receives m before another node of its lane, unless that closes a cycle.
  bool Move(int m, int position) {
    const Lanes::Message& message = lanes_.messages[m];
    const int target = first_[message.to] + position;
    const int sender = first_[message.from] + message.after;
    bool allowed = true;
    if (target < recv_[m]) {
      allowed = AddEdge(sender, target);
    } else if (HasNext(sender)) {
      allowed = AddEdge(target - 1, sender + 1);
    }
    if (!allowed) return false;
    std::vector<int>& here = recvs_before_[recv_[m]];
    here.erase(std::find(here.begin(), here.end(), m));
    recv_[m] = target;
    recvs_before_[target].push_back(m);
    return true;
  }

 private:
  bool HasNext(int node) const { return node + 1 < first_[lane_[node] + 1]; }
  bool HasPrevious(int node) const { return node > first_[lane_[node]]; }

  // The members of a collective share one position in the order, as they end together.
  void GroupNodes() {
    group_.resize(num_nodes_);
    members_.resize(num_nodes_);
    for (int n = 0; n < num_nodes_; ++n) group_[n] = n;
    for (const Lanes::Collective& collective : lanes_.collectives) {
      const int group = first_[collective[0].first] + collective[0].second;
      for (const auto& [lane, node] : collective) group_[first_[lane] + node] = group;
    }
    for (int n = 0; n < num_nodes_; ++n) members_[group_[n]].push_back(n);
  }

  void SortGroups() {
    order_.assign(num_nodes_, -1);
    for (int n = 0; n < num_nodes_; ++n) {
      if (group_[n] == n) sorted_.push_back(n);
    }
    // At equal times, collectives come first, in their order on their lanes.
    std::vector<int> ordinal(num_nodes_, -1);
    for (size_t c = 0; c < lanes_.collectives.size(); ++c) {
      const auto [lane, node] = lanes_.collectives[c][0];
      ordinal[first_[lane] + node] = static_cast<int>(c);
    }
    const auto key = [&](int n) {
      const Nanos start = lanes_.start[lane_[n]][n - first_[lane_[n]]];
      return std::make_tuple(start, ordinal[n] < 0, ordinal[n], n);
    };
    std::sort(sorted_.begin(), sorted_.end(), [&](int a, int b) { return key(a) < key(b); });
    for (size_t i = 0; i < sorted_.size(); ++i) order_[sorted_[i]] = static_cast<int>(i);
  }

  void AddMessage(int m) {
    const Lanes::Message& message = lanes_.messages[m];
    sends_after_[first_[message.from] + message.after].push_back(m);
    const std::vector<Nanos>& starts = lanes_.start[message.to];
    const auto at = std::lower_bound(starts.begin(), starts.end(), message.sent);
    recv_.push_back(first_[message.to] + static_cast<int>(at - starts.begin()));
    recvs_before_[recv_.back()].push_back(m);
  }

  template <typename Visit>
  void ForSuccessors(int group, const Visit& visit) const {
    for (int node : members_[group]) {
      for (int m : sends_after_[node]) visit(group_[recv_[m]]);
      if (!HasNext(node)) continue;
      visit(group_[node + 1]);
      for (int m : recvs_before_[node + 1]) {
        const int sender = first_[lanes_.messages[m].from] + lanes_.messages[m].after;
        if (HasNext(sender)) visit(group_[sender + 1]);
      }
    }
  }

  template <typename Visit>
  void ForPredecessors(int group, const Visit& visit) const {
    for (int node : members_[group]) {
      for (int m : recvs_before_[node]) {
        visit(group_[first_[lanes_.messages[m].from] + lanes_.messages[m].after]);
      }
      if (!HasPrevious(node)) continue;
      visit(group_[node - 1]);
      for (int m : sends_after_[node - 1]) {
        if (HasPrevious(recv_[m])) visit(group_[recv_[m] - 1]);
      }
    }
  }

  // Reorders for a new edge between nodes. Returns false if there is a path from `to` to `from`.
  bool AddEdge(int from_node, int to_node) {
    const int from = group_[from_node], to = group_[to_node];
    if (from == to) return false;
    if (order_[from] < order_[to]) return true;
    const int low = order_[to], high = order_[from];
    const int forward_mark = ++stamp_, backward_mark = ++stamp_;
    forward_ = {to};
    backward_ = {from};
    mark_[to] = forward_mark;
    mark_[from] = backward_mark;
    bool meet = false;
    // Search from both ends in turn, until one side is exhausted: that set suffices.
    size_t next_forward = 0, next_backward = 0;
    while (next_forward < forward_.size() && next_backward < backward_.size()) {
      ForSuccessors(forward_[next_forward++], [&](int next) {
        meet |= mark_[next] == backward_mark;
        if (order_[next] > high || mark_[next] >= forward_mark) return;
        mark_[next] = forward_mark;
        forward_.push_back(next);
      });
      if (meet) return false;
      if (next_forward == forward_.size()) break;
      ForPredecessors(backward_[next_backward++], [&](int before) {
        meet |= mark_[before] == forward_mark;
        if (order_[before] < low || mark_[before] >= forward_mark) return;
        mark_[before] = backward_mark;
        backward_.push_back(before);
      });
      if (meet) return false;
    }
    if (next_backward == backward_.size()) {
      MoveWithin(low, high, backward_mark, /*first=*/true);
    } else {
      MoveWithin(low, high, forward_mark, /*first=*/false);
    }
    return true;
  }

  // Moves the groups with this mark before, or after, all others in positions [low, high].
  void MoveWithin(int low, int high, int mark, bool first) {
    others_.clear();
    moved_.clear();
    for (int i = low; i <= high; ++i) {
      (mark_[sorted_[i]] == mark ? moved_ : others_).push_back(sorted_[i]);
    }
    int at = low;
    for (const std::vector<int>* part : {first ? &moved_ : &others_, first ? &others_ : &moved_}) {
      for (int n : *part) {
        order_[n] = at;
        sorted_[at++] = n;
      }
    }
  }

  const Lanes& lanes_;
  int num_nodes_ = 0;
  std::vector<int> first_;  // by lane: its first node; then the number of nodes
  std::vector<int> lane_;   // by node
  std::vector<std::vector<int>> sends_after_, recvs_before_;  // messages, by node
  std::vector<int> group_;                 // by node: the first member of its collective, or itself
  std::vector<std::vector<int>> members_;  // by group
  std::vector<int> recv_;                  // by message: the node before which it is received
  std::vector<int> order_;                 // by group: its position in a topological order
  std::vector<int> sorted_;                // the groups in that order
  std::vector<int> mark_;                  // by group
  int stamp_ = 0;
  std::vector<int> forward_, backward_, moved_, others_;
};

// By message, the next and the previous message of the same link; -1 if there is none.
struct Links {
  explicit Links(const Lanes& lanes) : next(lanes.messages.size(), -1), previous(next) {
    std::map<std::pair<int, int>, int> last;
    for (int m = 0; m < static_cast<int>(lanes.messages.size()); ++m) {
      const auto [entry, added] =
          last.emplace(std::make_pair(lanes.messages[m].from, lanes.messages[m].to), m);
      if (added) continue;
      previous[m] = entry->second;
      next[entry->second] = m;
      entry->second = m;
    }
  }
  std::vector<int> next, previous;
};

}  // namespace

std::vector<int> RecvPositions(const Lanes& lanes) {
  const int count = static_cast<int>(lanes.messages.size());
  OrderGraph graph(lanes);
  const Links links(lanes);
  std::vector<int> by_time(count);
  for (int m = 0; m < count; ++m) by_time[m] = m;
  std::stable_sort(by_time.begin(), by_time.end(),
                   [&](int a, int b) { return lanes.messages[a].sent < lanes.messages[b].sent; });
  // Move receives later, the last message first: it then no longer blocks those before it.
  for (auto m = by_time.rbegin(); m != by_time.rend(); ++m) {
    int target = lanes.messages[*m].wanted;
    if (links.next[*m] >= 0) target = std::min(target, graph.PositionOf(links.next[*m]));
    for (int tries = 0; tries < kMaxTries && target > graph.PositionOf(*m); ++tries, --target) {
      if (graph.Move(*m, target)) break;
    }
  }
  // Move receives earlier, the first message first.
  for (bool first : {true, false}) {
    for (int m : by_time) {
      if (lanes.messages[m].first != first) continue;
      int target = lanes.messages[m].wanted;
      if (links.previous[m] >= 0) target = std::max(target, graph.PositionOf(links.previous[m]));
      target = std::max(target, graph.PositionOf(m) - kMaxTries);
      for (; target < graph.PositionOf(m); ++target) {
        if (graph.Move(m, target)) break;
      }
    }
  }
  std::vector<int> positions(count);
  for (int m = 0; m < count; ++m) positions[m] = graph.PositionOf(m);
  return positions;
}

}  // namespace dpipe
