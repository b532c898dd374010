// A wheel, a balloon and a floor. train.py has the same scene, to learn from.
#version 450

layout(push_constant) uniform Frame {
  vec2 size;  // of the picture in pixels
  float time;
};
layout(location = 0) out vec4 colour;

bool odd(float x) {
  return mod(x, 2.0) > 0.5;
}

void main() {
  // In heights of the picture, from its centre.
  vec2 p = (gl_FragCoord.xy - 0.5 * size) / size.y;
  vec3 c = mix(vec3(0.16, 0.35, 0.62), vec3(0.95, 0.72, 0.5), clamp(p.y + 0.5, 0.0, 1.0));
  if (distance(p, vec2(0.52, -0.26)) < 0.11) c = vec3(1.0, 0.93, 0.66);
  if (p.y > 0.06 + 0.05 * sin(4.0 * p.x + 0.3 * time)) c = vec3(0.16, 0.33, 0.24);

  float depth = 0.12 / max(p.y - 0.12, 0.02);
  if (p.y > 0.2) {
    bool dark = !odd(floor(8.0 * p.x * depth) + floor(8.0 * depth + 1.5 * time));
    c = dark ? vec3(0.42, 0.27, 0.2) : vec3(0.87, 0.82, 0.7);
  }

  vec2 w = p + vec2(0.42, 0.04);
  float r = length(w);
  bool spoke = abs(sin(5.0 * (atan(w.y, w.x) + 0.6 * time))) * r < 0.03 && r < 0.3;
  if (abs(r - 0.3) < 0.018 || spoke) c = vec3(0.55, 0.12, 0.12);
  if (r < 0.06) c = vec3(0.95, 0.95, 0.92);

  vec2 b = p - vec2(0.25 + 0.3 * sin(0.5 * time), -0.12 + 0.06 * sin(1.3 * time));
  if (abs(abs(b.x) - 0.05) < 0.004 && b.y > 0.0 && b.y < 0.21) c = vec3(0.1, 0.1, 0.12);
  if (abs(b.x) < 0.055 && abs(b.y - 0.225) < 0.025) c = vec3(0.45, 0.3, 0.15);
  if (length(b) < 0.15) c = odd(floor(b.x / 0.035)) ? vec3(0.9, 0.25, 0.2) : vec3(0.98, 0.95, 0.9);
  colour = vec4(c, 1.0);
}
