#include "models/diffusion/noise_levels.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace dpipe::diffusion {
namespace {

constexpr double kRho = 7;
// Below any sigma of noise; keeps logarithms finite if there is no noise.
constexpr double kMinSigma = 1e-10;
// Rounding, as by the power and root of kRho, moves a position away from a timestep by less than
// this. Without the correction, truncation would give the timestep below.
constexpr double kSameTimestep = 1e-6;

double Log(double sigma) { return std::log(std::max(sigma, kMinSigma)); }

// Returns the position of `sigma` between timesteps, interpolated in log sigma, in [0,
// log_sigmas.size() - 1]. `log_sigmas` has all timesteps' values and never decreases.
double Place(const std::vector<double>& log_sigmas, double sigma) {
  const double wanted = Log(sigma);
  const auto above = std::upper_bound(log_sigmas.begin(), log_sigmas.end(), wanted);
  if (above == log_sigmas.begin()) return 0;
  const double below = static_cast<double>(above - log_sigmas.begin()) - 1;
  if (above == log_sigmas.end()) return below;
  return below + (wanted - above[-1]) / (*above - above[-1]);
}

// Returns levels with the sigmas that `sigma_at` gives for shares of the way in [0, 1].
template <typename F>
std::vector<NoiseLevel> Levels(const NoiseSchedule& schedule, int num_levels, const F& sigma_at) {
  DPIPE_CHECK_GE(num_levels, 1);
  std::vector<double> log_sigmas;
  for (int t = 0; t < schedule.num_timesteps(); ++t) {
    log_sigmas.push_back(Log(SigmaAt(schedule, t)));
  }
  std::vector<NoiseLevel> levels;
  for (int i = 0; i < num_levels; ++i) {
    const double sigma = sigma_at(num_levels == 1 ? 0 : static_cast<double>(i) / (num_levels - 1));
    levels.push_back({sigma, Place(log_sigmas, sigma)});
  }
  return levels;
}

}  // namespace

double SigmaAt(const NoiseSchedule& schedule, int t) {
  double a = schedule.alpha_cumprod(t);
  if (a == 0) a = kMinAlphaCumprod;
  return std::sqrt((1 - a) / a);
}

double SigmaBetween(const NoiseSchedule& schedule, double t) {
  const int below = static_cast<int>(t);
  const double share = t - below;
  const double sigma = SigmaAt(schedule, below);
  return share == 0 ? sigma : sigma + share * (SigmaAt(schedule, below + 1) - sigma);
}

absl::Status CheckNumSteps(const NoiseSchedule& schedule, int num_steps) {
  if (1 <= num_steps && num_steps <= schedule.num_timesteps()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "sampling in ", num_steps, " steps; the schedule allows 1 to ", schedule.num_timesteps()));
}

absl::StatusOr<std::vector<double>> SpreadTimesteps(const NoiseSchedule& schedule,
                                                    const Spread& spread) {
  DPIPE_RETURN_IF_ERROR(CheckNumSteps(schedule, spread.num_steps));
  const int total = schedule.num_timesteps(), num_steps = spread.num_steps;
  const int num_spread = num_steps + (spread.drops_last ? 1 : 0);
  // Divides first, as numpy's linspace does: otherwise a position at a half could round
  // differently.
  const double spacing_step = num_spread == 1 ? 0 : (total - 1.0) / (num_spread - 1);
  std::vector<double> timesteps(num_steps);
  for (int i = 0; i < num_steps; ++i) {
    const int rest = num_spread - 1 - i;  // steps after this one
    switch (spread.spacing) {
      case TimestepSpacing::kLeading:
        timesteps[i] = rest * (total / num_spread) + schedule.options().steps_offset;
        break;
      case TimestepSpacing::kTrailing:
        timesteps[i] = RoundedTimestep(total - i * (static_cast<double>(total) / num_steps)) - 1;
        break;
      case TimestepSpacing::kLinspace:
        // Rounding can move the product beyond the last timestep.
        timesteps[i] = std::min(total - 1.0, rest * spacing_step);
        if (spread.rounds) timesteps[i] = RoundedTimestep(timesteps[i]);
        break;
    }
  }
  if (timesteps.front() < total) return timesteps;
  return absl::InvalidArgumentError(absl::StrCat(
      "sampling in ", num_steps, " steps with a steps_offset of ", schedule.options().steps_offset,
      " starts at timestep ", timesteps.front(), " of ", total));
}

std::vector<NoiseLevel> KarrasNoiseLevels(const NoiseSchedule& schedule, double max_sigma,
                                          double min_sigma, int num_levels) {
  const double max_root = std::pow(max_sigma, 1 / kRho), min_root = std::pow(min_sigma, 1 / kRho);
  return Levels(schedule, num_levels, [&](double share) {
    return std::pow(max_root + share * (min_root - max_root), kRho);
  });
}

std::vector<NoiseLevel> ExponentialNoiseLevels(const NoiseSchedule& schedule, double max_sigma,
                                               double min_sigma, int num_levels) {
  return Levels(schedule, num_levels, [&](double share) {
    return std::exp(Log(max_sigma) + share * (Log(min_sigma) - Log(max_sigma)));
  });
}

std::vector<NoiseLevel> KarrasNoiseLevels(const NoiseSchedule& schedule, int num_levels) {
  return KarrasNoiseLevels(schedule, SigmaAt(schedule, schedule.num_timesteps() - 1),
                           SigmaAt(schedule, 0), num_levels);
}

std::vector<NoiseLevel> ExponentialNoiseLevels(const NoiseSchedule& schedule, int num_levels) {
  return ExponentialNoiseLevels(schedule, SigmaAt(schedule, schedule.num_timesteps() - 1),
                                SigmaAt(schedule, 0), num_levels);
}

double RoundedTimestep(double timestep) { return std::nearbyint(timestep); }

double TruncatedTimestep(double timestep) { return std::trunc(timestep + kSameTimestep); }

}  // namespace dpipe::diffusion
