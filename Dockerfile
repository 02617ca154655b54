# A server of one model. Build it from the root of the repository; docs/DEPLOYMENT.md says how to run it.

FROM node:22-bookworm-slim AS build
RUN apt-get update \
  && apt-get install -y --no-install-recommends g++ \
  && rm -rf /var/lib/apt/lists/*
WORKDIR /stet

# What is installed changes seldom, so it is a layer of its own. The lock file speaks of every workspace.
COPY package.json package-lock.json .npmrc ./
COPY apps/cli/package.json apps/cli/
COPY apps/playground/package.json apps/playground/
COPY bench/package.json bench/
COPY packages/backend-cpu/package.json packages/backend-cpu/
COPY packages/backend-webgpu/package.json packages/backend-webgpu/
COPY packages/backend/package.json packages/backend/
COPY packages/client/package.json packages/client/
COPY packages/engine/package.json packages/engine/
COPY packages/kv-cache/package.json packages/kv-cache/
COPY packages/model/package.json packages/model/
COPY packages/reference/package.json packages/reference/
COPY packages/scheduler/package.json packages/scheduler/
COPY packages/server/package.json packages/server/
COPY packages/tales/package.json packages/tales/
COPY packages/testing/package.json packages/testing/
RUN npm ci --no-audit --no-fund

COPY LICENSE tsconfig.base.json tsconfig.json tsup.base.ts turbo.json ./
COPY scripts scripts
COPY kernels kernels
COPY packages packages
COPY apps/cli apps/cli
COPY apps/playground apps/playground
RUN npx turbo run build --filter=@stet/cli \
  && node scripts/runtime-tree.mjs /runtime

FROM node:22-bookworm-slim
WORKDIR /stet
COPY --from=build /runtime ./
# Models that are pulled or mounted, and packed weights of the CPU backend.
RUN mkdir /models && chown node:node /models
VOLUME /models
ENV NODE_ENV=production \
    HF_HUB_CACHE=/models/hub \
    XDG_CACHE_HOME=/models/cache \
    STET_HOST=0.0.0.0 \
    STET_PORT=8642 \
    STET_LOG_FORMAT=json
USER node
EXPOSE 8642
# The process handles SIGTERM itself and starts no other, so it needs no init in front of it.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=5m --start-interval=1s --retries=3 \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.STET_PORT}/ready`).then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["node", "apps/cli/dist/main.js"]
CMD ["serve"]
