// Draws line charts. Knows fmt.
#include "samples/train_digits/svg.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

namespace digits {
namespace {

constexpr double kWidth = 960, kHeader = 104, kFooter = 44;
constexpr double kPanelWidth = 400, kPanelHeight = 170;  // of the plot area
constexpr double kLeft = 62, kGapX = 56, kGapY = 62;

struct Style {
  const char* colour;
  const char* dashes;
  double width;
};
constexpr Style kStyles[] = {
    {"#b5480f", "2 3.5", 1.9}, {"#5a6f8c", "8 4", 1.6}, {"#0b6e4f", "none", 2.0}};

using Out = std::back_insert_iterator<std::string>;

// The smallest round step that gives at most six intervals.
double linear_step(double span) {
  double power = std::pow(10, std::floor(std::log10(span)));
  for (double f : {0.1, 0.2, 0.25, 0.5, 1.0, 2.0}) {
    if (span / (f * power) <= 6) return f * power;
  }
  return 5 * power;
}

// Maps values of an axis to 0..1 and places its ticks.
class Mapping {
 public:
  explicit Mapping(const Panel& panel) : scale_(panel.axis.scale) {
    low_ = panel.axis.low;
    high_ = panel.axis.high;
    if (low_ == high_) find_range(panel);
    if (logarithmic()) {
      low_ = std::floor(in_units(low_));
      high_ = std::ceil(in_units(high_));
      if (scale_ == Axis::Scale::powers_of_two) high_ = low_ + std::ceil((high_ - low_) / 5) * 5;
    }
    if (high_ <= low_) high_ = low_ + 1;
    if (scale_ == Axis::Scale::linear) {
      double step = linear_step(high_ - low_);
      high_ = std::ceil(high_ / step - 1e-9) * step;
    }
  }

  bool shows(double y) const { return std::isfinite(y) && (!logarithmic() || y > 0); }
  double at(double y) const {
    return std::clamp(((logarithmic() ? in_units(y) : y) - low_) / (high_ - low_), 0.0, 1.0);
  }
  struct Tick {
    double at;
    std::string text;
  };
  std::vector<Tick> ticks() const {
    std::vector<Tick> out;
    double span = high_ - low_;
    double step = scale_ == Axis::Scale::powers_of_two ? span / 5
                  : scale_ == Axis::Scale::decades     ? std::max(1.0, std::floor(span / 5))
                                                       : linear_step(span);
    for (double v = low_; v <= high_ + step / 1000; v += step) {
      out.push_back({(v - low_) / span, text_of(v)});
    }
    return out;
  }

 private:
  bool logarithmic() const {
    return scale_ == Axis::Scale::decades || scale_ == Axis::Scale::powers_of_two;
  }
  double in_units(double y) const {
    return scale_ == Axis::Scale::powers_of_two ? std::log2(y) : std::log10(y);
  }
  std::string text_of(double v) const {
    switch (scale_) {
      case Axis::Scale::powers_of_two:
        return fmt::format("2<tspan dy=\"-4\" font-size=\"8.5\">{:.0f}</tspan>", v);
      case Axis::Scale::decades:
        return v >= -3 && v <= 3
                   ? fmt::format("{:g}", std::pow(10, v))
                   : fmt::format("10<tspan dy=\"-4\" font-size=\"8.5\">{:.0f}</tspan>", v);
      case Axis::Scale::percent:
        return fmt::format("{:.0f}%", 100 * v);
      case Axis::Scale::linear:
        return fmt::format("{:g}", std::abs(v) < 1e-12 ? 0 : v);
    }
    return "";
  }
  void find_range(const Panel& panel) {
    low_ = HUGE_VAL;
    high_ = -HUGE_VAL;
    for (const Series& s : panel.series) {
      for (const Point& p : s.points) {
        if (!shows(p.y)) continue;
        low_ = std::min(low_, p.y);
        high_ = std::max(high_, p.y);
      }
    }
    if (low_ > high_) low_ = high_ = 1;
    if (!logarithmic()) low_ = std::min(low_, 0.0);
  }

  Axis::Scale scale_;
  double low_, high_;
};

void draw_marker(Out out, size_t style, double x, double y) {
  const char* colour = kStyles[style].colour;
  if (style == 0) {
    fmt::format_to(out, R"(<path d="M{:.1f} {:.1f}l3.6 6.4h-7.2z" fill="{}"/>)", x, y - 4, colour);
  } else if (style == 1) {
    fmt::format_to(out, R"(<rect x="{:.1f}" y="{:.1f}" width="6" height="6" fill="{}"/>)", x - 3,
                   y - 3, colour);
  } else {
    fmt::format_to(out, R"(<circle cx="{:.1f}" cy="{:.1f}" r="3.3" fill="{}"/>)", x, y, colour);
  }
}

struct Box {
  double x, y, max_x, tick_x;
  double px(double v) const { return x + v / max_x * kPanelWidth; }
  double py(double unit) const { return y + (1 - unit) * kPanelHeight; }
};

void draw_series(Out out, const Series& s, const Mapping& map, const Box& box) {
  const Style& style = kStyles[s.style];
  fmt::format_to(out,
                 R"(<path fill="none" stroke="{}" stroke-width="{}" stroke-dasharray="{}" )"
                 R"(stroke-linejoin="round" d=")",
                 style.colour, style.width, style.dashes);
  bool pen_down = false;
  double last_y = 0;
  for (const Point& p : s.points) {
    if (!map.shows(p.y)) {
      pen_down = false;
      continue;
    }
    double x = box.px(p.x), y = box.py(map.at(p.y));
    if (pen_down && s.stairs) fmt::format_to(out, "L{:.1f} {:.1f}", x, last_y);
    fmt::format_to(out, "{}{:.1f} {:.1f}", pen_down ? 'L' : 'M', x, y);
    pen_down = true;
    last_y = y;
  }
  fmt::format_to(out, "\"/>\n");
  // A few markers, shifted per style so that coincident lines remain distinguishable.
  for (int i = 0; i < 4 && !s.points.empty(); ++i) {
    double wanted = box.max_x * (0.1 + 0.25 * i + 0.08 * static_cast<double>(s.style));
    auto at = std::lower_bound(s.points.begin(), s.points.end(), wanted,
                               [](const Point& p, double x) { return p.x < x; });
    if (at == s.points.end()) continue;
    bool held = s.stairs && at != s.points.begin() && at->x > wanted;
    Point p = held ? Point{wanted, std::prev(at)->y} : *at;
    if (map.shows(p.y)) draw_marker(out, s.style, box.px(p.x), box.py(map.at(p.y)));
  }
  for (double e : s.events) {
    double x = box.px(e), y = box.y + kPanelHeight - 7;
    fmt::format_to(out,
                   R"(<path d="M{:.1f} {:.1f}l6 6m-6 0l6 -6" stroke="{}" stroke-width="1.4"/>)",
                   x - 3, y - 3, style.colour);
  }
}

void draw_panel(Out out, const Panel& panel, const Box& box) {
  Mapping map(panel);
  fmt::format_to(out,
                 R"(<text x="{}" y="{}" class="t">{}<tspan class="n" dx="8">{}</tspan></text>)"
                 "\n",
                 box.x, box.y - 12, panel.title, panel.note);
  for (const Mapping::Tick& t : map.ticks()) {
    fmt::format_to(out,
                   R"(<path d="M{:.1f} {:.1f}h{}" class="g"/><text x="{}" y="{:.1f}" )"
                   R"(class="y">{}</text>)"
                   "\n",
                   box.x, box.py(t.at), kPanelWidth, box.x - 8, box.py(t.at) + 3.8, t.text);
  }
  fmt::format_to(out, R"(<path d="M{} {}h{}" class="a"/>)", box.x, box.y + kPanelHeight,
                 kPanelWidth);
  for (double v = 0; v <= box.max_x; v += box.tick_x) {
    fmt::format_to(out, R"(<path d="M{:.1f} {}v4" class="a"/><text x="{:.1f}" y="{}" class="x">)",
                   box.px(v), box.y + kPanelHeight, box.px(v), box.y + kPanelHeight + 17);
    fmt::format_to(out, "{:.0f}</text>\n", v);
  }
  for (const Series& s : panel.series) draw_series(out, s, map, box);
}

void draw_legend(Out out, const std::vector<std::string>& legend) {
  double x = kLeft;
  for (size_t i = 0; i < legend.size(); ++i) {
    const Style& s = kStyles[i];
    fmt::format_to(out,
                   R"(<path d="M{} 80h34" stroke="{}" stroke-width="{}" stroke-dasharray="{}"/>)",
                   x, s.colour, s.width, s.dashes);
    draw_marker(out, i, x + 17, 80);
    fmt::format_to(out, R"(<text x="{}" y="84" class="l">{}</text>)", x + 42, legend[i]);
    out = '\n';
    x += 76 + 6.6 * static_cast<double>(legend[i].size());
  }
}

}  // namespace

std::string draw(const Figure& figure) {
  std::string text;
  Out out(text);
  size_t rows = (figure.panels.size() + 1) / 2;
  double height = kHeader + static_cast<double>(rows) * (kPanelHeight + kGapY) + kFooter;
  fmt::format_to(out,
                 R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1}" width="{0}" )"
                 R"(height="{1}" font-family="system-ui, sans-serif" role="img">
<title>{2}</title>
<style>
text {{ fill: #1c2733; font-size: 11px }}
.h {{ font-size: 19px; font-weight: 600 }} .s {{ font-size: 12.5px; fill: #4d5b69 }}
.t {{ font-size: 13px; font-weight: 600 }} .n {{ font-weight: 400; fill: #4d5b69; font-size: 11px }}
.l {{ font-size: 12.5px }} .y {{ text-anchor: end }} .x {{ text-anchor: middle }}
.g {{ stroke: #e3e8ed }} .a {{ stroke: #66737f }}
</style>
<rect width="100%" height="100%" fill="#fff"/>
<text x="{3}" y="34" class="h">{2}</text>
<text x="{3}" y="56" class="s">{4}</text>
)",
                 kWidth, height, figure.title, kLeft, figure.subtitle);
  draw_legend(out, figure.legend);
  double max_x = 1;
  for (const Panel& p : figure.panels) {
    for (const Series& s : p.series) {
      if (!s.points.empty()) max_x = std::max(max_x, s.points.back().x);
    }
  }
  for (size_t i = 0; i < figure.panels.size(); ++i) {
    size_t row = i / 2, column = i % 2;
    Box box{kLeft + static_cast<double>(column) * (kPanelWidth + kGapX),
            kHeader + 30 + static_cast<double>(row) * (kPanelHeight + kGapY), max_x,
            linear_step(max_x)};
    draw_panel(out, figure.panels[i], box);
  }
  fmt::format_to(out, R"(<text x="{}" y="{}" class="s" text-anchor="middle">{}</text>)", kWidth / 2,
                 height - 18, figure.x_label);
  text += "\n</svg>\n";
  return text;
}

}  // namespace digits
