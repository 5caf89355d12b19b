#include "core/report/markup.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace dpipe::report {

std::string EscapeMarkup(absl::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default: {
        const auto byte = static_cast<unsigned char>(c);
        escaped += byte < 0x20 && c != '\n' && c != '\t' ? ' ' : c;
      }
    }
  }
  return escaped;
}

std::string NumberText(double value) {
  std::string text = absl::StrFormat("%.4f", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string ShortDuration(double duration_ns) {
  const auto three_digits = [](double value, const char* unit) {
    const int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    return absl::StrFormat("%.*f %s", decimals, value, unit);
  };
  if (duration_ns < 999.5e3) return absl::StrFormat("%.0f µs", duration_ns / 1e3);
  if (duration_ns < 999.5e6) return three_digits(duration_ns / 1e6, "ms");
  return three_digits(duration_ns / 1e9, "s");
}

std::string PercentText(double ratio) {
  return std::isnan(ratio) ? "-" : absl::StrFormat("%.1f %%", 100 * ratio);
}

double NiceTick(double range, int max_marks) {
  const double smallest = range / std::max(1, max_marks);
  const double power = std::pow(10, std::floor(std::log10(smallest)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= smallest * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

}  // namespace dpipe::report
